package shim

import (
	"bytes"
	"encoding/gob"

	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/masks"
)

// rehearse does in a waiting shim, and for nothing, what a start does with its order: the
// first time costs several times the second, for the pages of the program and what gob
// finds out of types. It tells nobody of an error, which the real one repeats.
func rehearse() error {
	var b bytes.Buffer
	var o order
	_ = gob.NewEncoder(&b).Encode(o)
	_ = gob.NewDecoder(&b).Decode(&o)
	p, _ := masks.Make(masks.Input{Home: "/", HomeSpelled: "/", Project: "/", ProjectSpelled: "/", Base: holder.Base()}, masks.OS{})
	_ = gob.NewEncoder(&b).Encode(holder.Spec{Steps: p.Steps, Placeholders: p.Placeholders})
	return nil
}
