# Masks, then carve-outs, then final masks: what is named at both ends is hidden.
# Seen in fencesandbox/fence#36, #208.
host() {
	owner sh -c 'mkdir -p "$0/tool/deep/keys" "$0/tool/open"; cd "$0/tool"
		echo SECRET >token; echo SECRET >deep/keys/k; echo open >open/f; echo SECRET >masked' "$HOME"
	start --carve '~/tool' --final-mask '~/tool/token' --final-mask '~/tool/deep/keys'
	for f in token deep/keys/k; do
		not inside grep -q SECRET "$HOME/tool/$f"
		not inside sh -c 'echo x >"$0"' "$HOME/tool/$f"
	done
	not inside sh -c 'rm -rf ~/tool/deep'
	not inside sh -c 'mv ~/tool/deep ~/tool/other'
	# What else is in the carve-out is the real thing.
	inside sh -c 'echo written >~/tool/open/g; cat ~/tool/open/f'
	[ "$(cat "$HOME/tool/open/g")" = written ]
	[ "$(cat "$HOME/tool/deep/keys/k")" = SECRET ]
	grep -q hidden <<<"$(sbxd policy explain '~/tool/token' "$S")"

	# What is not there cannot be kept hidden in a place where the host's file appears.
	status 7 sbxd start --project "$PROJECT" --carve '~/tool' --final-mask '~/tool/later'
	said 'does not exist'

	# The very same path at both ends: the later one wins, or the rules are refused.
	owner sh -c 'echo SECRET >"$0/.both"' "$HOME"
	if sbxd start --project "$PROJECT" --name both --carve '~/.both' --final-mask '~/.both' >/dev/null 2>&1; then
		S=both
		not inside grep -q SECRET "$HOME/.both"
	fi
	status 7 sbxd start --project "$PROJECT" --mask '~/.both' --carve '~/.both'
}
