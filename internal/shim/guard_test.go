package shim

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sbxd/sbxd/internal/holder"
	"github.com/sbxd/sbxd/masks"
)

func TestMasksOnNamesOfTheHost(t *testing.T) {
	spec := holder.Spec{
		Views: []holder.View{{Path: "/home/u"}, {Path: "/home/u/app"}},
		Steps: []masks.Step{
			{Op: masks.ViewRO, Path: "/srv/data"},
			{Op: masks.Cover, Path: "/home/u/.ssh"},
			{Op: masks.Cover, Path: "/srv/data/secret"},
			{Op: masks.Cover, Path: "/etc/token"},
			{Op: masks.CoverLink, Path: "/home/u/app/.env"},
			{Op: masks.BindRW, Path: "/home/u/tool"},
			{Op: masks.Pin, Path: "/home/u/tool/deep"},
			{Op: masks.Cover, Path: "/home/u/tool/deep/key"},
			{Op: masks.CoverLink, Path: "/home/u/tool/link"},
		},
	}
	want := []string{"/etc/token", "/home/u/tool/deep/key", "/home/u/tool/link"}
	if d := cmp.Diff(want, exposed(spec)); d != "" {
		t.Errorf("exposed (-want +got):\n%s", d)
	}
}
