package session

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"strings"
	"unicode/utf8"
)

// idLen is the length of an ID: 60 random bits, so that a guess is hopeless and two
// never meet.
const idLen = 12

// ID names a session: 12 characters of [a-z2-7]. It is used as a file name, so it is
// checked by ParseID on every entry.
type ID string

var lower32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewID returns a fresh random id.
func NewID() ID {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand, Go 1.24)
	return ID(lower32.EncodeToString(b[:])[:idLen])
}

// ParseID returns s as an ID, or an error that quotes it when it is none.
func ParseID(s string) (ID, error) {
	if !isID(s) {
		return "", fmt.Errorf("%.40q is not a session id (12 characters a-z, 2-7)", s)
	}
	return ID(s), nil
}

func isID(s string) bool {
	if len(s) != idLen {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '2' <= c && c <= '7':
		default:
			return false
		}
	}
	return true
}

// maxName keeps a name within a DNS label and a file name.
const maxName = 63

// CheckName tells why s cannot name a session. A name is
// [a-z0-9][a-z0-9._-]{0,62} and does not have the form of an id, so that no name
// ever hides a session.
func CheckName(s string) error {
	bad := len(s) == 0 || len(s) > maxName
	for i := 0; i < len(s) && !bad; i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '-':
			bad = i == 0
		default:
			bad = true
		}
	}
	switch {
	case bad:
		return fmt.Errorf("name %.80q: a name is 1 to 63 of a-z 0-9 . _ - and begins with a letter or digit", s)
	case isID(s):
		return fmt.Errorf("name %q has the form of a session id: choose another", s)
	}
	return nil
}

// Bounds of labels: enough for a bot's bookkeeping, small enough for a record.
const (
	maxLabels     = 32
	maxLabelKey   = 63
	maxLabelValue = 256
)

// CheckLabels tells why m cannot label a session. Keys are like names, but may hold
// upper-case letters and '/'; values are printable UTF-8 of at most 256 bytes.
func CheckLabels(m map[string]string) error {
	if len(m) > maxLabels {
		return fmt.Errorf("%d labels: a session has at most %d", len(m), maxLabels)
	}
	for k, v := range m {
		if !labelKey(k) {
			return fmt.Errorf("label key %.80q: 1 to %d of a-z A-Z 0-9 . _ - /", k, maxLabelKey)
		}
		if len(v) > maxLabelValue || !utf8.ValidString(v) || strings.ContainsFunc(v, control) {
			return fmt.Errorf("label %s: a value is at most %d bytes of printable UTF-8", k, maxLabelValue)
		}
	}
	return nil
}

func labelKey(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '-', c == '/':
		default:
			return false
		}
	}
	return len(s) > 0 && len(s) <= maxLabelKey
}

func control(r rune) bool { return r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 }
