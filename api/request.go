package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// do sends one request and decodes the answer into out. A failed Land or Undo carries
// its plan beside the error.
func (c *Client) do(ctx context.Context, method, path string, q url.Values, in, out any) error {
	resp, err := c.send(ctx, method, path, q, in)
	if err != nil {
		var bad *failure
		if errors.As(err, &bad) {
			if out != nil && len(bad.body.Plan) > 0 {
				_ = json.Unmarshal(bad.body.Plan, out)
			}
			return bad.body.Error
		}
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return &Error{Code: ExitFailed, Message: fmt.Sprintf("reading the daemon's answer: %v", err)}
	}
	return nil
}

// Failure is the body of an answer that is not 2xx: an Error, and beside it the plan
// that was not carried out, if there is one.
type Failure struct {
	*Error
	Plan json.RawMessage `json:"plan,omitempty"`
}

type failure struct{ body Failure }

func (f *failure) Error() string { return f.body.Error.Error() }
func (f *failure) Unwrap() error { return f.body.Error }

// maxAnswer bounds the body of an error.
const maxAnswer = 64 << 20

func (c *Client) send(ctx context.Context, method, path string, q url.Values, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, &Error{Code: ExitUsage, Message: fmt.Sprintf("encoding the request: %v", err)}
		}
		body = bytes.NewReader(b)
	}
	u := host + "/" + Version + path
	if len(q) > 0 {
		u += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err != nil {
		return nil, &Error{Code: ExitUsage, Message: fmt.Sprintf("making the request: %v", err)}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreached(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, decodeFailure(resp)
}

func decodeFailure(resp *http.Response) error {
	var f failure
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil {
		err = json.Unmarshal(b, &f.body)
	}
	if err != nil || f.body.Error == nil || f.body.Error.Message == "" {
		f.body = Failure{Error: &Error{Code: ExitFailed, Message: "the daemon answered " + resp.Status}}
	}
	return &f
}

// unreached tells a daemon that is not there from a connection that broke.
func (c *Client) unreached(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.As(err, new(*strangerError)) {
		return c.noDaemon(err)
	}
	return &Error{Code: ExitFailed, Message: fmt.Sprintf("the connection to the daemon broke: %v", err)}
}

func (c *Client) noDaemon(err error) error {
	if s := new(strangerError); errors.As(err, &s) {
		return &Error{Code: ExitDenied, Message: s.Error(), Hint: "set SBXD_SOCKET to your own daemon's"}
	}
	if errors.Is(err, errPermission) {
		return &Error{Code: ExitDenied, Message: fmt.Sprintf("%s is not yours to use", c.socket), Hint: "run your own daemon: sbxd serve"}
	}
	return &Error{
		Code: ExitNoDaemon, Message: fmt.Sprintf("no daemon answers on %s", c.socket),
		Hint: "start one: sbxd serve, or systemctl start sbxd",
	}
}
