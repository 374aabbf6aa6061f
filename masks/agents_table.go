package masks

// agents are the built-in profiles, sorted by name. Every directory that a command
// line writes is private: nothing in it is read by a program of the host, so it does
// not matter which settings, hooks, plugins or programs a session leaves there. What
// the user wrote for the agent (instructions, commands, skills) is shown read-only
// where the agent does not itself write.
//
// They are path policy like the credentials, and stand beside them: what an agent keeps
// its login in is a row of the credential table as well, so that others do not see it.
var agents = []Agent{
	{
		Name: "antigravity", Source: "https://github.com/google-gemini/gemini-cli",
		Paths: []AgentPath{
			{Path: "~/.gemini", Mode: Private, Seed: []Seed{
				{"~/.gemini/antigravity-cli/antigravity-oauth-token", "antigravity-cli/antigravity-oauth-token"},
				{"~/.gemini/google_accounts.json", "google_accounts.json"},
				{"~/.gemini/oauth_creds.json", "oauth_creds.json"},
				{"~/.gemini/settings.json", "settings.json"},
			}},
		},
	},
	{
		Name: "claude-code", Source: "https://code.claude.com/docs/en/settings",
		Paths: []AgentPath{
			{Path: "~/.claude", Mode: Private, Seed: []Seed{
				{"~/.claude.json", ".claude.json"}, // its place when CLAUDE_CONFIG_DIR is set
				{"~/.claude/.credentials.json", ".credentials.json"},
				{"~/.claude/settings.json", "settings.json"},
			}},
			{Path: "~/.claude/CLAUDE.md", Mode: RO},
			{Path: "~/.claude/agents", Mode: RO},
			{Path: "~/.claude/commands", Mode: RO},
			{Path: "~/.claude/local", Mode: RO}, // the program itself, installed locally
			{Path: "~/.claude/output-styles", Mode: RO},
			{Path: "~/.claude/rules", Mode: RO},
			{Path: "~/.claude/skills", Mode: RO},
		},
		Env: []Variable{{"CLAUDE_CONFIG_DIR", "~/.claude"}, {"DISABLE_AUTOUPDATER", "1"}},
	},
	{
		Name: "codex", Source: "https://developers.openai.com/codex/environment-variables",
		Paths: []AgentPath{
			{Path: "~/.codex", Mode: Private, Seed: []Seed{
				{"~/.codex/auth.json", "auth.json"},
				{"~/.codex/config.toml", "config.toml"},
			}},
			{Path: "~/.codex/AGENTS.md", Mode: RO},
			{Path: "~/.codex/packages", Mode: RO}, // the program itself, installed standalone
			{Path: "~/.codex/prompts", Mode: RO},
		},
		Env: []Variable{{"CODEX_HOME", "~/.codex"}},
	},
	{
		Name: "copilot", Source: "https://github.com/github/copilot-cli",
		Paths: []AgentPath{
			{Path: "~/.copilot", Mode: Private, Seed: []Seed{
				{"~/.copilot/config.json", "config.json"},
				{"~/.copilot/mcp-config.json", "mcp-config.json"},
			}},
		},
	},
	{
		Name: "gemini", Source: "https://geminicli.com/docs/reference/configuration",
		Paths: []AgentPath{
			{Path: "~/.gemini", Mode: Private, Seed: []Seed{
				{"~/.gemini/.env", ".env"},
				{"~/.gemini/google_accounts.json", "google_accounts.json"},
				{"~/.gemini/installation_id", "installation_id"},
				{"~/.gemini/oauth_creds.json", "oauth_creds.json"},
				{"~/.gemini/settings.json", "settings.json"},
			}},
			{Path: "~/.gemini/GEMINI.md", Mode: RO},
			{Path: "~/.gemini/commands", Mode: RO},
		},
	},
	{
		Name: "kimi", Source: "https://github.com/MoonshotAI/kimi-cli",
		Paths: []AgentPath{
			{Path: "~/.kimi-code", Mode: Private, Seed: []Seed{
				{"~/.kimi-code/config.toml", "config.toml"},
			}},
		},
	},
	{
		Name: "opencode", Source: "https://opencode.ai/docs/troubleshooting",
		Paths: []AgentPath{
			{Path: "~/.cache/opencode", Mode: Private},
			{Path: "~/.local/share/opencode", Mode: Private, Seed: []Seed{
				{"~/.local/share/opencode/auth.json", "auth.json"},
			}},
			{Path: "~/.local/state/opencode", Mode: Private},
		},
		Env: []Variable{{"OPENCODE_DISABLE_AUTOUPDATE", "1"}},
	},
	{
		Name: "pi", Source: "https://github.com/badlogic/pi-mono",
		Paths: []AgentPath{
			{Path: "~/.pi/agent", Mode: Private, Seed: []Seed{
				{"~/.pi/agent/auth.json", "auth.json"},
				{"~/.pi/agent/models.json", "models.json"},
				{"~/.pi/agent/settings.json", "settings.json"},
			}},
			{Path: "~/.pi/agent/AGENTS.md", Mode: RO},
		},
	},
	{
		Name: "qwen-code", Source: "https://github.com/QwenLM/qwen-code",
		Paths: []AgentPath{
			{Path: "~/.qwen", Mode: Private, Seed: []Seed{
				{"~/.qwen/.env", ".env"},
				{"~/.qwen/oauth_creds.json", "oauth_creds.json"},
				{"~/.qwen/settings.json", "settings.json"},
			}},
			{Path: "~/.qwen/QWEN.md", Mode: RO},
			{Path: "~/.qwen/commands", Mode: RO},
		},
	},
}
