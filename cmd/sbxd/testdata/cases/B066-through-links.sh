# HOME and project are reached through links: both spellings work, HOME keeps the
# caller's, and a landing goes to the real directory.
# Seen in deepcoldy/botmux#355, flatpak/flatpak#1422, netblue30/firejail#2114.
host() {
	owner sh -c 'mkdir -p "$0/var/homes/kim/p" "$0/var/homes/kim/.ssh"; echo SECRET >"$0/var/homes/kim/.ssh/id"; ln -s var/homes "$0/homes"; ln -s kim/p "$0/var/homes/short"; echo low >"$0/var/homes/kim/p/f"' "$W"
	local real=$W/var/homes/kim
	export HOME=$W/homes/kim
	start --project "$HOME/p"
	[ "$(inside sh -c 'echo $HOME')" = "$HOME" ]
	inside sh -c 'cd && ls -a >/dev/null && echo x >~/p/g && test -e "$0/p/g"' "$real"
	inside sh -c 'cd "$0/p" && cat f && echo y >>f' "$real" >/dev/null
	not inside cat "$HOME/.ssh/id"
	not inside cat "$real/.ssh/id"
	[ "$(inside pwd -L)" = "$HOME/p" ] || [ "$(inside pwd)" = "$real/p" ]
	land
	[ "$(cat "$real/p/g" "$real/p/f")" = $'x\nlow\ny' ]
	# A second session by another spelling is on the same project.
	local first=$S
	start --project "$W/homes/short"
	[ "$(inside cat g)" = x ]
	inside sh -c 'echo z >g'
	land
	[ "$(cat "$real/p/g")" = z ]
	sbxd exec "$first" -- true
	sbxd sweep >/dev/null
	sbxd exec "$first" -- true
}
