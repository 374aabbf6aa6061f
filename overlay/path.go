package overlay

import "strings"

// ComparePaths orders paths name by name, so that a directory comes directly
// before what it holds: "a", "a/b", "a-b". It returns -1, 0 or 1.
func ComparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] == b[i] {
			continue
		}
		switch {
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		case a[i] < b[i]:
			return -1
		}
		return 1
	}
	switch {
	case len(a) < len(b):
		return -1
	case len(a) > len(b):
		return 1
	}
	return 0
}

// join is path.Join without cleaning: names are taken as they are.
func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// split parts a path into its directory ("" for the root) and its last name.
func split(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// pathSet is a set of paths with their ancestors.
type pathSet struct {
	exact, above map[string]bool
}

func newPathSet() pathSet {
	return pathSet{exact: map[string]bool{}, above: map[string]bool{}}
}

func (s pathSet) add(path string) {
	s.exact[path] = true
	s.addAbove(path)
}

func (s pathSet) addAbove(path string) {
	for dir, _ := split(path); dir != "" && !s.above[dir]; dir, _ = split(dir) {
		s.above[dir] = true
	}
}
