package shim

import (
	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/masks"
)

// rehearse does in a waiting shim, and for nothing, what a start does with its order: the
// first time costs twice the second, for the pages of the program. It tells nobody of an
// error, which the real one repeats.
func (s *shim) rehearse() {
	s.user = userName(s.frame.UID)
	_, _ = masks.Make(masks.Input{Home: "/", HomeSpelled: "/", Project: "/", ProjectSpelled: "/", Base: holder.Base()}, masks.OS{})
}
