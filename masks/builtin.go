package masks

import "slices"

// fromBuiltin is the origin of the rules that nobody has to write.
const fromBuiltin = "built-in"

// Builtin returns the table of credentials that are hidden in every session, sorted
// by path. A row inside another row adds no mount; it is there so that no carve-out
// can be laid over it.
func Builtin() []Credential { return slices.Clone(builtin) }

// builtinRules turns the table into rules below home.
func builtinRules(home string) []Rule {
	out := make([]Rule, 0, len(builtin))
	for _, c := range builtin {
		out = append(out, Rule{Class: Mask, Path: expand(c.Path, home), Kind: c.Kind, From: fromBuiltin, Why: c.Why})
	}
	return out
}

// expand puts home in place of the leading tilde of a table's path.
func expand(path, home string) string { return home + path[1:] }

// obeyed are paths below HOME that programs of the host run, load or obey. A
// writable carve-out may not be, hold, or lie in one of them: what an agent writes
// there would run outside of the session. Sorted.
var obeyed = []string{
	"~/.bash_aliases",
	"~/.bash_login",
	"~/.bash_logout",
	"~/.bash_profile",
	"~/.bashrc",
	"~/.cargo/bin",
	"~/.cargo/config.toml",
	"~/.cargo/env",
	"~/.config/autostart",
	"~/.config/direnv",
	"~/.config/environment.d",
	"~/.config/fish",
	"~/.config/git",
	"~/.config/nvim",
	"~/.config/opencode",
	"~/.config/systemd",
	"~/.direnvrc",
	"~/.emacs",
	"~/.emacs.d",
	"~/.gitconfig",
	"~/.inputrc",
	"~/.local/bin",
	"~/.local/lib",
	"~/.local/share/applications",
	"~/.local/share/systemd",
	"~/.npm-global",
	"~/.nvm",
	"~/.pam_environment",
	"~/.profile",
	"~/.pyenv",
	"~/.rustup",
	"~/.tmux.conf",
	"~/.vim",
	"~/.vimrc",
	"~/.volta",
	"~/.vscode",
	"~/.vscode-server",
	"~/.xinitrc",
	"~/.xprofile",
	"~/.xsession",
	"~/.zlogin",
	"~/.zprofile",
	"~/.zshenv",
	"~/.zshrc",
	"~/bin",
	"~/go/bin",
}
