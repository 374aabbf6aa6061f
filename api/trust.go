package api

import (
	"context"
	"net/http"
)

// TrustRequest lets the .sbxd.toml of a project count (POST /v1/trust), as it is now.
// Only the host's side asks for it.
type TrustRequest struct {
	Dir   string `json:"dir"`              // absolute
	Home  string `json:"home,omitempty"`   // as in StartRequest: what ~/ in the file stands for
	RunAs string `json:"run_as,omitempty"` // as in StartRequest
}

// Trusted is a file that counts from now on, until it changes.
type Trusted struct {
	Dir    string `json:"dir"` // canonical
	File   string `json:"file"`
	Digest string `json:"digest"` // SHA-256, hexadecimal
}

// Trust lets a project's own file count.
func (c *Client) Trust(ctx context.Context, r TrustRequest) (t Trusted, err error) {
	if bad := notText([]string{r.Dir}); bad != "" {
		return t, &Error{Code: ExitRefused, Message: "the project's path is not UTF-8", Hint: "reach it by a path that is"}
	}
	return t, c.do(ctx, http.MethodPost, "/trust", nil, r, &t)
}
