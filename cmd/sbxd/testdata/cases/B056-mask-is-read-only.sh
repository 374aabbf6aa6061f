# What is hidden is empty and cannot be written, so that no program believes it saved
# something there. Seen in anthropic-experimental/sandbox-runtime#149.
host() {
	owner sh -c 'mkdir -p "$0/.ssh" "$0/.keys"; echo SECRET >"$0/.ssh/id"; echo SECRET >"$0/.keys/k"; echo SECRET >"$0/.netrc"' "$HOME"
	start --mask '~/.keys'
	[ -z "$(inside sh -c 'ls -A ~/.ssh ~/.keys | grep -v :; cat ~/.netrc' | tr -d '\n')" ]
	for cmd in 'echo x >~/.ssh/new' 'mkdir ~/.keys/new' 'echo x >~/.netrc' 'echo x >>~/.netrc' 'rm ~/.netrc' \
		'mv ~/.netrc ~/netrc' 'ln ~/.netrc ~/netrc' 'rmdir ~/.keys' 'mv ~/.ssh ~/ssh' 'chmod 777 ~/.ssh' 'ln -sf /etc/passwd ~/.netrc' \
		'mv -T /tmp ~/.keys' 'touch ~/.keys'; do
		rc=0
		inside sh -c "$cmd" 2>"$DIR/err" || rc=$?
		[ $rc -ne 0 ] || fail "should not succeed: $cmd"
		said 'Read-only|Permission denied|not permitted|busy|cross-device|exists'
	done
	[ "$(cat "$HOME/.ssh/id" "$HOME/.netrc")" = $'SECRET\nSECRET' ]
}
