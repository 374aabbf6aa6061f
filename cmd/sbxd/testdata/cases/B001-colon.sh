# A name that means something in a list of mount options: colon, comma, backslash,
# equals sign. Seen in containers/fuse-overlayfs#227, moby/moby#40959.
host() {
	for tail in ':right' ',upperdir=x' '\054y' '\' '=a:b,c\d'; do
		local short=$W/left long="$W/left$tail"
		owner mkdir -p "$short" "$long"
		owner sh -c 'echo wrong >"$0/which"; echo right >"$1/which"' "$short" "$long"
		start --project "$long"
		[ "$(inside cat which)" = right ]
		inside sh -c 'echo made >made; rm which; mkdir -p sub/dir'
		land
		[ "$(cat "$long/made")" = made ]
		[ -d "$long/sub/dir" ]
		not test -e "$long/which"
		[ "$(ls "$short")" = which ]
	done
}
