// Package config reads what an admin and a user want of sbxd. One struct holds it
// all; files are TOML and read strictly, so that a misspelt key never switches a
// protection off in silence.
//
// It knows the keys, who may set them, and where a value came from. It must not know
// what a mask does or how a session starts: paths of rules stay as they were written,
// with their origin, until a session gives them a HOME and a project.
package config

// AdminFile is the file of the admin. Its values hold for every user.
const AdminFile = "/etc/sbxd/config.toml"

// Config is everything that can be configured. The comments are the documentation of
// the keys; `sbxd config example` shows them all.
type Config struct {
	// State is the directory of all state. Empty: /var/lib/sbxd for root, else
	// /var/tmp/sbxd-UID. It has to lie outside of HOME and of every project.
	State string `toml:"state"`
	// Socket is the socket of the API. Empty: /run/sbxd/sbxd.sock for root, else
	// sbxd/sbxd.sock in $XDG_RUNTIME_DIR.
	Socket string `toml:"socket"`
	// RunAs is the user that sessions of root run as. Admin only.
	RunAs string `toml:"run_as"`
	// Bwrap is the absolute path of bubblewrap. Empty: the usual places.
	Bwrap string `toml:"bwrap"`
	// Home is how much of HOME a session sees: "masked" shows it copy-on-write without
	// its credentials.
	Home string `toml:"home" jsonschema:"enum=masked"`
	// Masks are hidden from every session, beside the built-in credentials.
	Masks []Path `toml:"masks"`
	// FinalMasks are hidden even inside carve-outs.
	FinalMasks []Path `toml:"final_masks"`
	// Carves are real directories that sessions may write. Admin only.
	Carves []Path `toml:"carves"`
	// ReadOnly are paths of the host that sessions see as they are, read-only.
	ReadOnly []Path `toml:"read_only"`
	// Env names the variables that a session takes from whoever starts it.
	Env []string `toml:"env"`

	Network Network          `toml:"network"`
	Limits  Limits           `toml:"limits"`
	Agents  map[string]Agent `toml:"agents"`

	from map[string]string // key → origin of its value
}

// Network is what sessions reach.
type Network struct {
	// Default is the network of a session that does not say: "off" or "open".
	Default string `toml:"default" jsonschema:"enum=off,enum=open"`
	// AllowOpen lets sessions ask for the open network. Admin only.
	AllowOpen bool `toml:"allow_open"`
}

// Limits bound what one session may use.
type Limits struct {
	// LogMiB bounds the log of all output; the oldest is dropped.
	LogMiB int `toml:"log_mib" jsonschema:"minimum=1,maximum=65536"`
	// ShmMiB bounds /dev/shm.
	ShmMiB int `toml:"shm_mib" jsonschema:"minimum=1,maximum=1048576"`
	// TmpMiB bounds /tmp and /var/tmp, each.
	TmpMiB int `toml:"tmp_mib" jsonschema:"minimum=1,maximum=1048576"`
	// ChangesMiB bounds what is changed in HOME and in the project, each; 0: the disk
	// does. A bound needs the unionfs backend.
	ChangesMiB int `toml:"changes_mib" jsonschema:"minimum=0,maximum=16777216"`
	// ChangedFiles bounds the number of files and directories that are changed or made
	// in HOME and in the project, each; 0: the disk does.
	ChangedFiles int `toml:"changed_files" jsonschema:"minimum=0,maximum=1073741824"`
}

// Agent changes the built-in profile of an agent, or makes a new one.
type Agent struct {
	// Paths says what an agent sees at a path: "private" (a directory of sbxd's own
	// that lasts), "copy" (one of this session's), "ro" (the host's, read-only),
	// "live" (the host's, really written; admin only) or "none" (as without profile).
	Paths map[string]string `toml:"paths"`
	// Seed lists files that are copied once into the private directory they lie in.
	Seed []string `toml:"seed"`
	// Env are variables to set. A leading ~/ stands for HOME.
	Env map[string]string `toml:"env"`
}

// Path is a path of a rule as it was written, and where.
type Path struct {
	Text string
	From string // "/etc/sbxd/config.toml:12"
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Path) UnmarshalText(b []byte) error {
	p.Text = string(b)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (p Path) MarshalText() ([]byte, error) { return []byte(p.Text), nil }

// Default returns the configuration without any file.
func Default() Config {
	return Config{
		Home: "masked",
		Env: []string{
			"COLORTERM", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "NO_COLOR", "PATH", "TERM", "TZ",
			"http_proxy", "https_proxy", "no_proxy", "all_proxy",
			"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY",
		},
		Network: Network{Default: "off"},
		Limits:  Limits{LogMiB: 64, ShmMiB: 1024, TmpMiB: 4096},
	}
}
