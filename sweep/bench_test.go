package sweep

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sbxd/sbxd/internal/proc"
	"github.com/sbxd/sbxd/session"
)

// The goal for 1,000 sessions and 10,000 mounts is less than a second, all told.

func nth(i int) session.ID {
	const digits = "abcdefghijklmnopqrstuvwxyz234567"
	b := []byte("aaaaaaaaaaaa")
	for p := len(b) - 1; i > 0; p, i = p-1, i/len(digits) {
		b[p] = digits[i%len(digits)]
	}
	return session.ID(b)
}

// BenchmarkParse reads the host's table of 10,000 lines and 1,000 tables of 30.
func BenchmarkParse(b *testing.B) {
	host, other := table(10_000, base+"/"+string(sid("a"))), table(30, "/tmp/root/home")
	for b.Loop() {
		for i := range 1001 {
			text := other
			if i == 0 {
				text = host
			}
			if _, partial, err := parseTable(strings.NewReader(text)); err != nil || partial {
				b.Fatal(partial, err)
			}
		}
	}
}

// BenchmarkMake plans for 1,000 sessions, half of them dead, each with a namespace of 30
// mounts, and 10,000 mounts of the host, all below directories of the dead.
func BenchmarkMake(b *testing.B) {
	s, k := world()
	for i := range 1000 {
		id, l := nth(i), proc.Alive
		k.Records = append(k.Records, rec(id, session.Alive, 1000+i*10))
		if i%2 == 0 {
			l = proc.Dead
			for m := range 20 {
				s.Namespaces[0].Mounts = append(s.Namespaces[0].Mounts, Mount{Point: fmt.Sprintf("%s/%s/m%d", base, id, m)})
			}
		}
		s.lives(l, pid(1000+i*10), pid(1001+i*10), pid(1002+i*10))
		n := Namespace{Inode: uint64(1000 + i*10)}
		for m := range 30 {
			n.Mounts = append(n.Mounts, Mount{Point: fmt.Sprintf("/home/m%d", m), FSType: "overlay", Layers: []string{"/usr"}})
		}
		s.Namespaces = append(s.Namespaces, n)
		s.Dirs = append(s.Dirs, Dir{Base: base, Name: string(id), Changed: now.Add(-time.Hour), Record: true})
	}
	for b.Loop() {
		if p := Make(s, k); len(p.Entries) != 1000+10_000 {
			b.Fatal(len(p.Entries))
		}
	}
}

// BenchmarkLook looks at this machine and a state root of 1,000 sessions.
func BenchmarkLook(b *testing.B) {
	dir := b.TempDir()
	store, err := session.OpenStore(dir + "/st")
	if err != nil {
		b.Skip(err)
	}
	defer store.Close()
	self, err := proc.Self()
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		r := session.Record{
			ID: nth(i), State: session.Alive, Created: time.Now(), Network: "off", Backend: "auto",
			Running: session.Running{Shim: self, Bwrap: self, Guest: self},
			Project: session.Place{Spelled: "/p", Real: "/p"}, Home: session.Place{Spelled: "/h", Real: "/h"},
		}
		if err := store.Create(r, nil); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		k, err := KnownOf(store, dir, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Look(b.Context(), k); err != nil {
			b.Fatal(err)
		}
	}
}
