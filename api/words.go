package api

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// Word is a string of any bytes. As JSON it is a string where it is UTF-8, and
// {"base64": "…"} where it is not, so that a file name reaches a command as it is.
type Word string

type encoded struct {
	Base64 *[]byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (w Word) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(w)) {
		return json.Marshal(string(w))
	}
	return []byte(`{"base64":"` + base64.StdEncoding.EncodeToString([]byte(w)) + `"}`), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (w *Word) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var e encoded
		if err := json.Unmarshal(b, &e); err != nil {
			return err
		}
		if e.Base64 == nil {
			return errors.New(`a word is a string or {"base64": "…"}`)
		}
		*w = Word(*e.Base64)
		return nil
	}
	return json.Unmarshal(b, (*string)(w))
}

// Words is a list of Word that converts to and from []string.
type Words []string

// MarshalJSON implements json.Marshaler.
func (ws Words) MarshalJSON() ([]byte, error) {
	out := make([]Word, len(ws))
	for i, s := range ws {
		out[i] = Word(s)
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (ws *Words) UnmarshalJSON(b []byte) error {
	var in []Word
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*ws = make(Words, len(in))
	for i, w := range in {
		(*ws)[i] = string(w)
	}
	return nil
}
