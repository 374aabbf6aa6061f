package session

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
)

// Bounds of a session's environment: below the kernel's limit for one string
// (MAX_ARG_STRLEN, 128 KiB) and far below that of all.
const (
	maxEnvPair = 128<<10 - 1
	maxEnv     = 1 << 20
)

// CheckEnv tells why env cannot be the environment of a command: every entry is
// NAME=VALUE with a NAME of [A-Za-z_][A-Za-z0-9_]*, without NUL. The error names the
// variable, never its value.
func CheckEnv(env []string) error {
	total := 0
	for _, kv := range env {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || !envName(name) {
			return fmt.Errorf("environment variable %.80q: its name has to be letters, digits and _, and it needs a value", name)
		}
		if strings.IndexByte(kv, 0) >= 0 || len(kv) > maxEnvPair {
			return fmt.Errorf("environment variable %s: its value holds a NUL or is longer than %d bytes", name, maxEnvPair)
		}
		total += len(kv) + 1
	}
	if total > maxEnv {
		return fmt.Errorf("the environment is longer than %d bytes", maxEnv)
	}
	return nil
}

func envName(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		case '0' <= c && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return s != ""
}

// EnvNames returns the names of env, sorted as given.
func EnvNames(env []string) []string {
	var names []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	return names
}

// encodeEnv keeps env NUL-separated, as /proc/PID/environ does: a value may hold any
// other byte.
func encodeEnv(env []string) []byte {
	var b bytes.Buffer
	for _, kv := range env {
		b.WriteString(kv)
		b.WriteByte(0)
	}
	return b.Bytes()
}

// Env reads the environment of id.
func (s *Store) Env(id ID) ([]string, error) {
	b, err := readOwn(filepath.Join(s.dir(id), envFile))
	if err != nil {
		return nil, fmt.Errorf("reading the environment of session %s: %w", id, err)
	}
	var env []string
	for kv := range strings.SplitSeq(string(b), "\x00") {
		if kv != "" {
			env = append(env, kv)
		}
	}
	return env, nil
}
