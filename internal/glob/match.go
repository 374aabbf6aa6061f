package glob

import "errors"

// Match reports whether name matches one name of a pattern, which is not "**".
func Match(pattern, name string) bool {
	ok, err := match(pattern, name)
	return ok && err == nil
}

// match matches one name byte by byte, as a shell does. The time is bounded by
// the product of the lengths.
func match(pattern, name string) (bool, error) {
	back, from := -1, 0 // the last star, and where its rest began
	p, n := 0, 0
	for n < len(name) || p < len(pattern) {
		if p < len(pattern) && pattern[p] == '*' {
			back, from = p, n
			p++
			continue
		}
		if p < len(pattern) {
			size, ok, err := matchOne(pattern[p:], name[n:])
			if err != nil {
				return false, err
			}
			if ok {
				p, n = p+size, n+1
				continue
			}
		}
		if back < 0 || from >= len(name) {
			return false, checkRest(pattern, p)
		}
		from++
		p, n = back+1, from
	}
	return true, nil
}

// checkRest finds faults in what was not compared.
func checkRest(pattern string, p int) error {
	for p < len(pattern) {
		size, _, err := matchOne(pattern[p:], "x")
		if err != nil {
			return err
		}
		p += size
	}
	return nil
}

var errPattern = errors.New("a set or an escape does not end")

// matchOne matches the first element of pattern with the first byte of name, and
// returns the length of the element.
func matchOne(pattern, name string) (size int, ok bool, err error) {
	switch pattern[0] {
	case '*':
		return 1, true, nil
	case '?':
		return 1, name != "", nil
	case '[':
		return matchSet(pattern, name)
	case '\\':
		if len(pattern) < 2 {
			return 0, false, errPattern
		}
		return 2, name != "" && name[0] == pattern[1], nil
	}
	return 1, name != "" && name[0] == pattern[0], nil
}

func matchSet(pattern, name string) (size int, ok bool, err error) {
	i := 1
	not := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if not {
		i++
	}
	in := false
	for first := true; ; first = false {
		if i >= len(pattern) {
			return 0, false, errPattern
		}
		if pattern[i] == ']' && !first {
			break
		}
		lo, next, err := setByte(pattern, i)
		if err != nil {
			return 0, false, err
		}
		hi := lo
		if next+1 < len(pattern) && pattern[next] == '-' && pattern[next+1] != ']' {
			if hi, next, err = setByte(pattern, next+1); err != nil {
				return 0, false, err
			}
		}
		in = in || name != "" && lo <= name[0] && name[0] <= hi
		i = next
	}
	return i + 1, name != "" && in != not, nil
}

func setByte(pattern string, i int) (b byte, next int, err error) {
	if pattern[i] == '\\' {
		i++
	}
	if i >= len(pattern) {
		return 0, 0, errPattern
	}
	return pattern[i], i + 1, nil
}
