package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// faults loads one file as the admin's and returns every fault as "LINE KEY: message".
func faults(t *testing.T, text string) []string {
	t.Helper()
	_, _, err := Load(Sources{Only: write(t, "c.toml", text)})
	var out []string
	for _, f := range Faults(err) {
		out = append(out, fmt.Sprintf("%d %s: %s", f.Line, f.Key, f.Message))
	}
	if err != nil && len(out) == 0 {
		t.Fatalf("an error without a fault: %v", err)
	}
	return out
}

func wantFaults(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d faults, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("fault %d is\n\t%s\nwant\n\t%s…", i, got[i], want[i])
		}
	}
}

// B176: an unknown key, a key twice or a wrong type stops with file, line and key.
func TestB176(t *testing.T) {
	t.Run("a key twice", func(t *testing.T) {
		got := faults(t, "masks = [\"~/.ssh\"]\n[egres]\nallow = \"a.test\"\nmask = \"~/.aws\"\nmask = []\n")
		wantFaults(t, got, "5 mask: key mask is already defined")
	})
	t.Run("an unknown table", func(t *testing.T) {
		got := faults(t, "masks = [\"~/.x\"]\n[egres]\nallow = \"a.test\"\n")
		wantFaults(t, got, "2 egres: unknown key; allowed here: agents, bwrap, carves, env,")
	})
	t.Run("an unknown key in a table", func(t *testing.T) {
		got := faults(t, "[network]\ndefault = \"off\"\nallow = true\n")
		wantFaults(t, got, "3 network.allow: unknown key; allowed here: allow_open, default")
	})
	t.Run("a string for a list", func(t *testing.T) {
		got := faults(t, "\nmasks = \"~/.x\"\n")
		wantFaults(t, got, "2 masks: is a string; it has to be a list of strings")
	})
	t.Run("a number in a list", func(t *testing.T) {
		got := faults(t, "masks = [\n  \"~/.x\",\n  3,\n]\n")
		wantFaults(t, got, "3 masks[1]: is a whole number; it has to be a string")
	})
	t.Run("all at once", func(t *testing.T) {
		got := faults(t, "state = 1\nmask = []\n[limits]\ntmp_mib = \"4G\"\n[network]\nallow_open = \"yes\"\n[agents.x]\npaths = []\n")
		wantFaults(
			t, got,
			"8 agents.x.paths: is a list; it has to be a table",
			"4 limits.tmp_mib: is a string; it has to be a whole number",
			"2 mask: unknown key",
			"6 network.allow_open: is a string; it has to be true or false",
			"1 state: is a whole number; it has to be a string",
		)
	})
	t.Run("a table for a string", func(t *testing.T) {
		wantFaults(t, faults(t, "[home]\nmode = 1\n"), "1 home: is a table; it has to be a string")
	})
	t.Run("broken TOML", func(t *testing.T) {
		wantFaults(t, faults(t, "masks = [\n\nb="), "3 :")
	})
}

// B170: a path that could mean something else is an error, with its line.
func TestB170(t *testing.T) {
	for _, m := range []string{".ssh", "./x", "//home/u/.ssh", "", "/", "~root/.ssh", "$HOME/.ssh", "~/a/../b"} {
		for _, key := range []string{"masks", "final_masks", "carves", "read_only"} {
			wantFaults(t, faults(t, fmt.Sprintf("%s = [\n%q]\n", key, m)), fmt.Sprintf("2 %s[0]: path %q", key, m))
		}
	}
}

func TestPatternsAreMasksOnly(t *testing.T) {
	wantFaults(t, faults(t, "masks = [\"**/.env\", \"~/**/*.{pem,key}\", \"/srv/*/x\"]\n"))
	wantFaults(t, faults(t, "masks = [\"*.env\"]\n"), "1 masks[0]: path \"*.env\": is a pattern of unknown place")
	wantFaults(t, faults(t, "masks = [\"~/[a\"]\n"), "1 masks[0]: path \"~/[a\": a set or an escape does not end")
	for _, key := range []string{"final_masks", "carves", "read_only"} {
		wantFaults(t, faults(t, key+" = [\"~/**/.env\"]\n"), "1 "+key+"[0]: path \"~/**/.env\": a pattern can only be a mask")
	}
}

func TestValuesAreChecked(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"home", `home = "full"`, `1 home: is "full"; allowed: masked`},
		{"home that is not built", `home = "listed"`, `1 home: "listed" is not built yet; allowed: masked`},
		{"network", "[network]\ndefault = \"filtered\"", `2 network.default: is "filtered"; allowed: off, open`},
		{"root as user", `run_as = "root"`, `1 run_as: is "root"`},
		{"uid 0 as user", `run_as = "0"`, `1 run_as: is "0"`},
		{"limit too small", "[limits]\nlog_mib = 0", `2 limits.log_mib: is 0; allowed: 1 to 65536 MiB`},
		{"limit too large", "[limits]\n\ntmp_mib = 99999999", `3 limits.tmp_mib: is 99999999`},
		{"variable", "env = [\"A=b\"]", `1 env[0]: "A=b" is no name`},
		{"relative state", `state = "var"`, `0 state: is not absolute`},
		{"state is root", `state = "/"`, `0 state: is the root directory`},
		{"relative bwrap", `bwrap = "bwrap"`, `0 bwrap: is not absolute`},
		{"agent's name", "[agents.\"a b\"]\nseed = []", `1 agents.a b: "a b" is no name of an agent`},
		{"agent's mode", "[agents.a]\npaths = { \"~/.a\" = \"rw\" }", `2 agents.a.paths.~/.a: is "rw"; allowed: copy, live, none, private, ro`},
		{"agent's path", "[agents.a]\npaths = { \".a\" = \"ro\" }", `2 agents.a.paths..a: path ".a": is relative`},
		{"agent's seed", "[agents.a]\nseed = [\"~/.a\", \"x\"]", `2 agents.a.seed[1]: path "x": is relative`},
		{"agent's variable", "[agents.a]\nenv = { \"A-B\" = \"x\" }", `2 agents.a.env.A-B: "A-B" is no name`},
		{"open without leave", "[network]\ndefault = \"open\"", `0 network.default: is open, but network.allow_open is not true`},
	} {
		t.Run(c.name, func(t *testing.T) { wantFaults(t, faults(t, c.text+"\n"), c.want) })
	}
}

func TestLayers(t *testing.T) {
	admin := write(t, "admin.toml", "masks = [\"~/.a\"]\ncarves = [\"/srv/x\"]\nstate = \"/srv/sbxd\"\nenv = [\"A\"]\n[network]\nallow_open = true\n[agents.codex]\nenv = { X = \"1\", Y = \"1\" }\n")
	user := write(t, "user.toml", "masks = [\"~/.b\"]\nstate = \"~/sbxd\"\nenv = [\"B\", \"TERM\"]\n[network]\ndefault = \"open\"\n[agents.codex]\nenv = { X = \"2\" }\n")
	c, warnings, err := Load(Sources{Admin: admin, User: user, Home: "/home/u", Flags: Flags{Socket: "/run/x.sock"}})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("load: %v %v", err, warnings)
	}
	want := []Path{{"~/.a", admin + ":1"}, {"~/.b", user + ":1"}}
	if !slices.Equal(c.Masks, want) {
		t.Errorf("masks %v, want %v", c.Masks, want)
	}
	if c.State != "/home/u/sbxd" || c.Socket != "/run/x.sock" || c.Network != (Network{"open", true}) {
		t.Errorf("values of the wrong layer: %+v", c)
	}
	if !slices.Contains(c.Env, "A") || !slices.Contains(c.Env, "B") || !slices.Contains(c.Env, "LANG") {
		t.Errorf("env does not add up: %v", c.Env)
	}
	if got := c.Agents["codex"].Env; got["X"] != "2" || got["Y"] != "1" {
		t.Errorf("agents do not add up: %v", got)
	}
	for key, from := range map[string]string{
		"state": user + ":2", "socket": "--socket or environment", "network.allow_open": admin + ":6",
		"network.default": user + ":5", "limits.log_mib": "default",
	} {
		if got := c.Origin(key); got != from {
			t.Errorf("%s comes from %s, want %s", key, got, from)
		}
	}
}

// What only the admin may set is refused in a user's file, by name.
func TestUserCannotLoosen(t *testing.T) {
	user := write(t, "user.toml", "run_as = \"x\"\ncarves = [\"/srv\"]\n[network]\nallow_open = true\n[agents.a]\npaths = { \"/srv/y\" = \"live\" }\n")
	_, _, err := Load(Sources{User: user})
	var keys []string
	for _, f := range Faults(err) {
		keys = append(keys, f.Key)
	}
	want := []string{"carves", "network.allow_open", "run_as", "agents.a.paths./srv/y"}
	if !slices.Equal(keys, want) {
		t.Errorf("refused %v, want %v\n%v", keys, want, err)
	}
	for _, key := range []string{"bots.x", "hooks", "actions.x", "executors"} {
		if got := faults(t, "["+key+"]\n"); len(got) != 1 || !strings.Contains(got[0], "unknown key") {
			t.Errorf("[%s]: %v", key, got)
		}
	}
}

func TestFilesThatOthersControl(t *testing.T) {
	dir := t.TempDir()
	open := write(t, "open.toml", "")
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	big := write(t, "big.toml", strings.Repeat("#", MaxFile+1))
	for file, want := range map[string]string{
		open:                          "may be written by everybody",
		fifo:                          "is no regular file",
		dir:                           "is no regular file",
		big:                           "is larger than",
		filepath.Join(dir, "missing"): "cannot be read: no such file",
	} {
		_, _, err := Load(Sources{Only: file})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
	if _, _, err := Load(Sources{Admin: filepath.Join(dir, "missing"), User: filepath.Join(dir, "missing")}); err != nil {
		t.Errorf("usual files that are not there: %v", err)
	}
	if os.Geteuid() == 0 {
		foreign := write(t, "foreign.toml", "")
		if err := os.Chown(foreign, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Load(Sources{Only: foreign}); err == nil || !strings.Contains(err.Error(), "belongs to uid 12345") {
			t.Errorf("a file of another user: %v", err)
		}
	}
}

func TestUsual(t *testing.T) {
	env := map[string]string{"HOME": "/home/u", "SBXD_STATE": "/s", "SBXD_SOCKET": "/k"}
	got := Usual(1000, func(n string) string { return env[n] })
	want := Sources{Admin: AdminFile, User: "/home/u/.config/sbxd/config.toml", Home: "/home/u", Flags: Flags{State: "/s", Socket: "/k"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("Usual(1000) = %+v, want %+v", got, want)
	}
	env["SBXD_CONFIG"] = "/c"
	if got := Usual(0, func(n string) string { return env[n] }); got.User != "" || got.Only != "/c" {
		t.Errorf("Usual(0) = %+v", got)
	}
}

func TestWarnsOfDoubles(t *testing.T) {
	_, warnings, err := Load(Sources{Only: write(t, "c.toml", "masks = [\"~/.a\",\n\"~/.a\"]\n")})
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].String(), ":2: ~/.a is in masks already") {
		t.Errorf("%v, %v", warnings, err)
	}
}

func TestExplain(t *testing.T) {
	c, _, err := Load(Sources{Only: write(t, "c.toml", "masks = [\"~/.a\"]\n[agents.x]\nenv = { TOKEN = \"hidden\" }\nseed = [\"~/.x/y\"]\npaths = { \"~/.x\" = \"private\" }\n")})
	if err != nil {
		t.Fatal(err)
	}
	all := c.Explain()
	if !slices.IsSortedFunc(all, func(a, b Setting) int { return strings.Compare(a.Key, b.Key) }) {
		t.Error("not sorted")
	}
	text := fmt.Sprint(all)
	for _, want := range []string{"{masks[0] \"~/.a\" ", "c.toml:1}", "agents.x.paths.\"~/.x\" \"private\"", "{network.default \"off\" default}"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "hidden") {
		t.Error("shows the value of a variable")
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(Example())
	f.Add([]byte("masks = [\"~/.ssh\"]\n[egres]\nmask = \"a\"\nmask = []\n"))
	f.Add([]byte("a.b.c = {d = [1, {e = 2}]}\n[[x]]\ny = 1979-05-27\n"))
	f.Add([]byte("[agents.\"~/.\"]\npaths = {\"*\" = \"live\"}\n"))
	f.Add([]byte{0xff, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, admin := range []bool{true, false} {
			c := Default()
			c.from = map[string]string{}
			err := c.add(layer{file: "f", admin: admin}, data)
			if err != nil && len(Faults(err)) == 0 {
				t.Fatalf("an error without a fault: %v", err)
			}
			if err == nil && !admin && (c.Network.AllowOpen || len(c.Carves) > 0 || c.RunAs != "") {
				t.Fatal("a user's file loosened something")
			}
			c.Explain()
		}
		p := &ProjectDoc{Dir: "/p", home: "/h", data: data}
		if got, err := p.Decode(); err == nil {
			for _, r := range got.ReadOnly {
				if !strings.HasPrefix(r.Text, "/p/") {
					t.Fatalf("a project's file shows %q", r.Text)
				}
			}
		}
	})
}

// A long list is read in a time that grows with its length, not with its square.
func TestLongLists(t *testing.T) {
	var b strings.Builder
	b.WriteString("masks = [\n")
	for i := range 20000 {
		fmt.Fprintf(&b, "\"~/d/%d\",\n", i)
	}
	b.WriteString("]\n")
	c, _, err := Load(Sources{Only: write(t, "c.toml", b.String())})
	if err != nil || len(c.Masks) != 20000 || !strings.HasSuffix(c.Masks[19999].From, ":20001") {
		t.Errorf("%d masks, the last from %v, %v", len(c.Masks), c.Masks[len(c.Masks)-1], err)
	}
}
