package land

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote returns a path as a person may safely see it on a terminal: as it is, or
// in double quotes with escapes when it holds a control character, a character
// that reorders text, a byte that is not UTF-8, a quote, or blanks at an end.
func Quote(p string) string {
	if p != "" && p == strings.TrimSpace(p) && !strings.ContainsAny(p, `"\`) && strings.IndexFunc(p, unsafeRune) < 0 && utf8.ValidString(p) {
		return p
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(p); {
		r, n := utf8.DecodeRuneInString(p[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\%03o`, p[i])
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteByte(p[i])
		default:
			writeRune(&b, r, p[i:i+n], true)
		}
		i += n
	}
	b.WriteByte('"')
	return b.String()
}

// Printable returns text that cannot steer a terminal: every control character
// but newline and tab, and every character that reorders text, is spelled out.
func Printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return unsafeRune(r) && r != '\n' && r != '\t' }) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[i])
		} else {
			writeRune(&b, r, s[i:i+n], false)
		}
		i += n
	}
	return b.String()
}

// writeRune writes r, escaped if it is unsafe; octal escapes are what git uses in
// names.
func writeRune(b *strings.Builder, r rune, raw string, name bool) {
	switch {
	case !unsafeRune(r) || (!name && (r == '\n' || r == '\t')):
		b.WriteString(raw)
	case name && r == '\n':
		b.WriteString(`\n`)
	case name && r == '\t':
		b.WriteString(`\t`)
	case name:
		for i := range len(raw) {
			fmt.Fprintf(b, `\%03o`, raw[i])
		}
	case r < 0x100:
		fmt.Fprintf(b, `\x%02x`, r)
	default:
		fmt.Fprintf(b, `\u%04x`, r)
	}
}

// unsafeRune is true for C0, C1, DEL and the Unicode format characters, among
// them those that turn the direction of text (CVE-2021-42574).
func unsafeRune(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}
