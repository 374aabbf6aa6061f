package masks

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The order is the security argument: inputs, masks, carve-outs, final masks, and
// inside a phase outer before inner.
func TestOrder(t *testing.T) {
	h := host(
		t, "d /home/u/p", "d /home/u/.ssh/known_hosts.d", "f /home/u/.ssh/known_hosts.d/id", "d /srv/data/sub", "f /srv/data/secret",
		"f /home/u/p/.env", "d /home/u/p/out", "d /opt/skills",
	)
	plan := mustMake(t, input(
		rule(FinalMask, "/home/u/.ssh/known_hosts.d/id"),
		rule(CarveOut, "/home/u/.ssh/known_hosts.d"),
		rule(Mask, "/home/u/p/.env"),
		rule(ReadOnlyInput, "/srv/data"),
		rule(Mask, "/srv/data/secret"),
		rule(Mask, "/srv/data/later"),
		rule(CarveOut, "/home/u/p/out"),
		Rule{Class: RuntimeInput, Path: "/home/u/.skills", Target: "/opt/skills", From: "test"},
	), h)
	golden(t, "order", print(plan, false))
	for i, s := range plan.Steps[1:] {
		if before := plan.Steps[i]; before.Phase > s.Phase || (before.Phase == s.Phase && comparePaths(before.Path, s.Path) > 0) {
			t.Errorf("%v comes before %v", before, s)
		}
	}
	verdicts(t, plan, map[string]Verdict{
		"/home/u/.ssh": Hidden, "/home/u/.ssh/id_rsa": Hidden, "/home/u/.ssh/known_hosts.d/x": Writable, "/home/u/.ssh/known_hosts.d/id": Hidden,
		"/srv/data/sub": ReadOnly, "/srv/data/secret": Hidden, "/srv/data/later": Hidden, "/home/u/p/.env": Hidden,
		"/home/u/p/out/x": Writable, "/home/u/.skills/x": ReadOnly, "/usr/bin/x": ReadOnly, "/root": Absent, "/var": Absent,
	})
}

func TestRefusedCarveOuts(t *testing.T) {
	h := host(t, "d /home/u/p/.git", "d /home/u/.ssh", "d /home/u/real", "l /home/u/link -> real", "d /home/u/real/sub", "s /home/u/sock", "d /srv/x")
	for path, say := range map[string]string{
		"/home/u":                                "HOME",
		"/home":                                  "HOME",
		"/home/u/p":                              "the project",
		"/home/u/.ssh":                           "would expose",
		"/home/u/.local/share":                   "would expose",
		"/home/u/.config":                        "sbxd's own",
		"/home/u/.config/sbxd":                   "sbxd's own",
		"/home/u/.config/sbxd/x":                 "sbxd's own",
		"/var/tmp/sbxd-1000":                     "sbxd's own",
		"/var/tmp/sbxd-1000/agent":               "sbxd's own",
		"/var":                                   "sbxd's own",
		"/run":                                   "sbxd's own",
		"/tmp":                                   "in place of the session's",
		"/proc/self":                             "kernel's own",
		"/usr/local":                             "read-only in every session",
		"/home/u/.bashrc":                        "run or obey",
		"/home/u/.config/systemd/user/x.service": "run or obey",
		"/home/u/p/.git":                         "past the landing",
		"/home/u/p/.git/hooks":                   "past the landing",
		"/home/u/missing":                        "does not exist",
		"/home/u/sock":                           "socket",
		"/home/u/link":                           "symbolic link", // case 4: a link is never followed
		"/home/u/link/sub":                       "symbolic link",
		"relative":                               "not an absolute path",
		"/home/u/x/../y":                         "not an absolute path",
	} {
		refused(t, input(rule(CarveOut, path)), h, path, say, "(test)")
	}
	refused(t, input(Rule{Class: CarveOut, Path: "/home/u/x", Target: "/srv/x", Kind: KindDir, From: "test"}), h, "not in a directory of sbxd's own")
	refused(t, input(rule(Mask, "/srv/x"), rule(CarveOut, "/srv/x")), h, "hidden by the mask")
	refused(t, input(rule(FinalMask, "/home/u/real"), rule(CarveOut, "/home/u/real/sub")), h, "would show nothing")
}

// A mask above a carve-out stays; one below it holds too.
func TestCarveOutBetweenMasks(t *testing.T) {
	h := host(t, "d /home/u/p", "d /home/u/a/b/c/d", "f /home/u/a/b/c/secret")
	plan := mustMake(t, input(rule(Mask, "/home/u/a"), rule(CarveOut, "/home/u/a/b"), rule(Mask, "/home/u/a/b/c/secret")), h)
	golden(t, "between", print(plan, false))
	verdicts(t, plan, map[string]Verdict{
		"/home/u/a": Hidden, "/home/u/a/x": Hidden, "/home/u/a/b": Writable, "/home/u/a/b/c": Writable, "/home/u/a/b/c/secret": Hidden,
	})
	// Through a link a credential can lie in a carve-out without being named so.
	refused(t, input(rule(CarveOut, "/home/u/a")), host(t, "d /home/u/p", "f /home/u/a/netrc", "l /home/u/.netrc -> a/netrc"), "would expose /home/u/a/netrc")
}

func TestRefusedInputs(t *testing.T) {
	h := host(t, "d /home/u/p", "f /home/u/.ssh/known_hosts", "l /home/u/k -> .ssh/known_hosts", "l /srv/up -> /home", "s /run/x.sock", "l /srv/loop -> loop", "x /srv/closed")
	for path, say := range map[string]string{
		"/home/u":                  "HOME",
		"/home":                    "HOME",
		"/home/u/p":                "the project",
		"/srv/up":                  "is really /home",
		"/var/tmp":                 "sbxd's own",
		"/var/tmp/sbxd-1000/x":     "sbxd's own",
		"/home/u/.ssh/known_hosts": "would show nothing",
		"/home/u/k":                "would show nothing",
		"/run/x.sock":              "socket",
		"/srv/missing":             "does not exist",
		"/srv/loop":                "loop",
		"/srv/closed/x":            "no right to enter /srv/closed",
		"/dev/shm":                 "kernel's own",
	} {
		refused(t, input(rule(ReadOnlyInput, path)), h, path, say)
	}
	optional := rule(ReadOnlyInput, "/srv/missing")
	optional.Optional = true
	mustMake(t, input(optional), h)
}

// A13: a read-only path above a masked secret does not show it, nor what comes later.
func TestInputAboveMasks(t *testing.T) {
	in := input(rule(ReadOnlyInput, "/home/u/.local"), rule(ReadOnlyInput, "/srv/l"))
	in.StateDirs = in.StateDirs[:1]
	plan := mustMake(t, in, host(t, "d /home/u/p", "d /home/u/.local/share/keyrings", "d /home/u/.local/bin", "d /mnt/disk", "l /srv/l -> /mnt/disk"))
	golden(t, "input-above", print(plan, false))
	verdicts(t, plan, map[string]Verdict{
		"/home/u/.local/bin": ReadOnly, "/home/u/.local/share/keyrings": Hidden, "/home/u/.local/share/opencode": Hidden, "/mnt/disk/x": ReadOnly,
		"/srv/l/x": ReadOnly,
	})
}

// What leads to programs of the host is shown through a view, where it leads nowhere.
func TestEndsInInputs(t *testing.T) {
	h := host(t, "d /home/u/p", "f /srv/plain/a/f", "s /srv/deep/a/b/sock", "s /srv/masked/sock", "d /run/user/1000/fnm/bin", "s /srv/carve/sock")
	plan := mustMake(t, input(rule(ReadOnlyInput, "/srv/plain"), rule(ReadOnlyInput, "/srv/deep"), rule(ReadOnlyInput, "/srv/masked"),
		rule(Mask, "/srv/masked/sock"), rule(ReadOnlyInput, "/run/user/1000/fnm"), rule(CarveOut, "/srv/carve")), h)
	got := map[string]Op{}
	for _, s := range plan.Steps {
		if s.Phase == ReadOnlyInput {
			got[s.Path] = s.Op
		}
	}
	want := map[string]Op{"/srv/plain": BindRO, "/srv/deep": ViewRO, "/srv/masked": ViewRO, "/run/user/1000/fnm": ViewRO}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("inputs (-want +got):\n%s", d)
	}
	if w := strings.Join(plan.Warnings, ""); !strings.Contains(w, "/srv/carve/sock") {
		t.Errorf("warnings %q", w)
	}
	for _, path := range []string{"/run/user", "/run/user/1000", "/run"} {
		refused(t, input(rule(ReadOnlyInput, path)), h, path)
	}
}

// Case 3: links in the project that lead anywhere are covered themselves, and nothing
// outside is touched.
func TestLinksInTheProject(t *testing.T) {
	h := host(
		t, "d /home/u/p", "f /oldroot/home/u/.bashrc", "l /home/u/p/.env -> /oldroot/home/u/.bashrc", "l /home/u/p/conf -> /etc",
		"f /home/u/p/real", "l /home/u/p/cred -> real", "l /home/u/p/gone -> nowhere/at/all", "l /home/u/p/loop -> loop",
		"l /home/u/p/up -> ../..", "d /etc",
	)
	var rules []Rule
	for _, n := range []string{".env", "conf", "cred", "gone", "loop", "up"} {
		rules = append(rules, rule(Mask, "/home/u/p/"+n))
	}
	plan := mustMake(t, input(rules...), h)
	golden(t, "links", print(plan, false))
	verdicts(t, plan, map[string]Verdict{
		"/home/u/p/.env": Hidden, "/home/u/p/conf": Hidden, "/etc/passwd": ReadOnly, "/home/u/p/real": Hidden, "/home/u/p/nowhere/at/all": Hidden,
		"/home/u/p/loop": Hidden, "/home/u/p/up": Hidden, "/home/u/x": Copied,
	})
}

// A link on the way to a credential does not uncover it.
func TestLinkedDirectories(t *testing.T) {
	plan := mustMake(t, input(), host(
		t, "d /home/u/p", "l /home/u/.config -> dot/config", "f /home/u/dot/config/gh/hosts.yml", "l /home/u/.aws -> /srv/aws", "d /srv/aws",
		"l /home/u/.ssh -> .keys", "d /home/u/.keys",
	))
	golden(t, "linked", print(plan, false))
	verdicts(t, plan, map[string]Verdict{
		"/home/u/.config/gh/hosts.yml": Hidden, "/home/u/dot/config/gh": Hidden, "/home/u/dot/config/x": Copied, "/home/u/.config/x": Copied,
		"/home/u/.aws": Hidden, "/srv/aws": Absent, "/home/u/.ssh": Hidden, "/home/u/.keys/id": Hidden,
	})
}

// Case 7: other names of a hidden file are refused, both named.
func TestHardLinks(t *testing.T) {
	tree := []string{"d /home/u/p", "f /home/u/.ssh/id", "h /home/u/p/x = /home/u/.ssh/id", "f /home/u/.netrc", "h /home/u/bak/n = /home/u/.netrc"}
	refused(t, input(), host(t, tree...), "/home/u/.ssh/id", "/home/u/p/x", "/home/u/.netrc", "/home/u/bak/n", "hard link")
	plan := mustMake(t, input(rule(Mask, "/home/u/p/x"), rule(Mask, "/home/u/bak")), host(t, tree...))
	verdicts(t, plan, map[string]Verdict{"/home/u/p/x": Hidden, "/home/u/bak/n": Hidden})
}

// Case 7: a second mount of the same directory is refused too.
func TestMountAliases(t *testing.T) {
	h := host(t, "d /home/u/p/sub", "f /home/u/p/.env", "d /home/u/alias", "d /home/u/.ssh/keys")
	with := func(mounts ...Mount) Input {
		in := input(rule(Mask, "/home/u/p/.env"))
		in.Mounts = append([]Mount{{Point: "/", Root: "/", Dev: 1, FSType: "ext4"}, {Point: "/home", Root: "/@home", Dev: 2, FSType: "btrfs"}}, mounts...)
		return in
	}
	mustMake(t, with(), h)
	mustMake(t, with(Mount{Point: "/mnt", Root: "/@home", Dev: 2}), h)                            // nobody sees /mnt
	mustMake(t, with(Mount{Point: "/home/u/alias", Root: "/@home/u/p/sub", Dev: 2}), h)           // not what is hidden
	mustMake(t, with(Mount{Point: "/home/u/alias", Root: "/@home/u/p", Dev: 3}), h)               // another file system
	mustMake(t, with(Mount{Point: "/home/u/alias", Root: "/@home/u/p", Dev: 2, Hidden: true}), h) // not shown
	links := host(t, "d /home/u/p", "d /home/u/alias", "f /home/u/real", "l /home/u/p/.env -> ../real")
	mustMake(t, with(), links) // a link is no alias of itself
	refused(t, with(Mount{Point: "/home/u/alias", Root: "/@home/u/p", Dev: 2}), h, "/home/u/p/.env", "/home/u/alias/.env", "second mount")
	refused(t, with(Mount{Point: "/home/u/alias", Root: "/@home/u/.ssh/keys", Dev: 2}), h, "/home/u/.ssh", "/home/u/alias", "second mount")
	in := with(Mount{Point: "/home/u/alias", Root: "/@home/u/p", Dev: 2})
	in.Rules = append(in.Rules, rule(Mask, "/home/u/alias"))
	mustMake(t, in, h)
}

// Mounts below HOME: a masked path in one makes it a view; one that may hang is not
// looked into.
func TestNestedMounts(t *testing.T) {
	in := input(rule(Mask, "/home/u/net/secret"))
	in.Mounts = []Mount{
		{Point: "/", Root: "/", Dev: 1},
		{Point: "/home/u/.config", Root: "/", Dev: 5},
		{Point: "/home/u/.config/deep", Root: "/", Dev: 6},
		{Point: "/home/u/music", Root: "/", Dev: 7},
		{Point: "/home/u/net", Root: "/", Dev: 8, FSType: "nfs", Hidden: true},
	}
	h := host(t, "d /home/u/p", "d /home/u/.config/gh", "d /home/u/.config/deep", "d /home/u/music", "d /home/u/net/secret")
	h.blocked["/home/u/net"] = true // as if it hung
	golden(t, "nested", print(mustMake(t, in, h), false))
}

func TestProjectIsHome(t *testing.T) {
	in := input(rule(Mask, "/home/u/.env"))
	in.Project = in.Home
	plan := mustMake(t, in, host(t, "d /home/u", "f /home/u/.env"))
	for _, p := range plan.Placeholders {
		if p.View != in.Home {
			t.Errorf("placeholder %v", p)
		}
	}
	verdicts(t, plan, map[string]Verdict{"/home/u/.env": Hidden, "/home/u/.ssh": Hidden, "/home/u/x": Copied})
	in.Rules = []Rule{rule(Mask, "/home/u")}
	refused(t, in, host(t, "d /home/u"), "would hide HOME")
}

func TestPlaces(t *testing.T) {
	h := host(t, "d /home/u/p")
	for say, change := range map[string]func(*Input){
		"lies above HOME":                 func(in *Input) { in.Project = "/home" },
		`the project is "/"`:              func(in *Input) { in.Project = "/" },
		`HOME is "/"`:                     func(in *Input) { in.Home = "/" },
		`HOME is "home"`:                  func(in *Input) { in.Home = "home" },
		"there is no project":             func(in *Input) { in.Project = "" },
		"lies in sbxd's own directory /s": func(in *Input) { in.StateDirs = []string{"/s"}; in.Project = "/s/x" },
	} {
		in := input()
		change(&in)
		refused(t, in, h, say)
	}
}

// sbxd's own directories are hidden wherever a session could see them, for good.
func TestStateIsHidden(t *testing.T) {
	in := input(rule(ReadOnlyInput, "/srv"))
	in.StateDirs = append(in.StateDirs, "/etc/sbxd", "/opt/none")
	plan := mustMake(t, in, host(t, "d /home/u/p/.sbxd", "d /etc/sbxd", "d /srv"))
	verdicts(t, plan, map[string]Verdict{
		"/home/u/.config/sbxd/config.toml": Hidden, "/etc/sbxd": Hidden, "/home/u/p/.sbxd/x": Hidden, "/home/u/p/.sbxd.toml": Copied,
		"/var/tmp/sbxd-1000": Absent,
	})
	if got, want := plan.Hidden("/home/u/p"), []string{".sbxd"}; !slices.Equal(got, want) {
		t.Errorf("hidden in the project: %v", got)
	}
}

// A directory that the uid may not enter is hidden as a whole: what is in it cannot be
// told now.
func TestClosedDirectories(t *testing.T) {
	plan := mustMake(t, input(), host(t, "d /home/u/p", "x /home/u/.config"))
	verdicts(t, plan, map[string]Verdict{"/home/u/.config": Hidden, "/home/u/.config/gh/hosts.yml": Hidden, "/home/u/.local": Copied})
	refused(t, input(), host(t, "d /home/u/p", "x /home/u"), "no right to enter /home/u")
}

func TestFileInTheWay(t *testing.T) {
	plan := mustMake(t, input(rule(Mask, "/home/u/notes/x")), host(t, "d /home/u/p", "f /home/u/notes", "f /home/u/.cargo"))
	if w := strings.Join(plan.Warnings, "\n"); !strings.Contains(w, "/home/u/notes is a file") {
		t.Errorf("warnings %q", w)
	}
	verdicts(t, plan, map[string]Verdict{"/home/u/notes": Copied})
}

// An agent's state directory may be a link into a repository of dotfiles.
func TestAgentBehindLink(t *testing.T) {
	h := host(t, "d /home/u/p", "d /home/u/dot/claude/skills", "l /home/u/.claude -> dot/claude", "f /home/u/dot/claude/.credentials.json")
	plan := mustMake(t, withAgent(t, "claude-code"), h)
	golden(t, "agent-link", print(plan, false))
	verdicts(t, plan, map[string]Verdict{
		"/home/u/.claude/settings.json": Own, "/home/u/dot/claude/.credentials.json": Own, "/home/u/.claude/skills/x": ReadOnly,
	})
	refused(t, withAgent(t, "claude-code"), host(t, "d /home/u/p", "l /home/u/.claude -> /srv/claude", "d /srv/claude"), "leads to /srv/claude, outside of HOME")
	refused(t, withAgent(t, "claude-code"), host(t, "d /home/u/p", "f /home/u/.claude"), "is not a dir on the host")
}

func TestRuntimeInputs(t *testing.T) {
	h := host(t, "d /home/u/p", "f /home/u/dot/skills/x", "l /home/u/.claude/skills -> ../dot/skills", "f /home/u/dot/skills/.netrc", "l /home/u/.netrc -> dot/skills/.netrc")
	in := withAgent(t, "claude-code", Rule{Class: RuntimeMask, Path: "/home/u/.claude/skills/x", From: "test"})
	plan := mustMake(t, in, h)
	golden(t, "runtime", print(plan, false))
	verdicts(t, plan, map[string]Verdict{
		"/home/u/.claude/settings.json": Own, "/home/u/dot/skills/.netrc": Hidden, "/home/u/dot/skills/x": Copied,
		"/home/u/.netrc": Hidden,
	})
	for _, n := range []string{".netrc", "x"} {
		if !slices.ContainsFunc(plan.Steps, func(s Step) bool { return s.Phase == RuntimeMask && s.Path == "/home/u/.claude/skills/"+n }) {
			t.Errorf("%s is not hidden in the skills", n)
		}
	}
}
