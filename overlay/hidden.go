package overlay

// isMasked reports whether path is left out, with all below it.
func (w *walker) isMasked(path string) bool {
	return w.masked.exact[path] || w.opt.Hidden != nil && w.opt.Hidden(path)
}

// holdsMasked reports whether the directory path of the base holds what is left out, so
// that it cannot go as a whole. What of the base cannot be read counts.
func (w *walker) holdsMasked(path string) bool {
	if w.masked.above[path] {
		return true
	}
	if w.opt.Hidden == nil {
		return false
	}
	if holds, known := w.holds[path]; known {
		return holds
	}
	holds := w.searchMasked(path)
	if w.holds == nil {
		w.holds = map[string]bool{}
	}
	w.holds[path] = holds
	return holds
}

func (w *walker) searchMasked(path string) bool {
	names, err := w.baseNames(path)
	if err != nil {
		return true
	}
	for _, name := range names {
		at := join(path, name)
		if w.isMasked(at) || w.step(at) != nil {
			return true
		}
		if b, err := w.base.Lstat(at); err == nil && b.Type == Dir && w.holdsMasked(at) {
			return true
		}
	}
	return false
}
