# Trailing and doubled slashes and dots: every spelling is the one path, for masks, for
# carve-outs and for what must not be carved out. Seen in apache/magpie#1148,
# netblue30/firejail#1388.
host() {
	for c in '~/.ssh' '~/.ssh/' '~/.ssh//' '~/.ssh/.' '~//.ssh' '~/./.ssh' '~/x/../.ssh' "$HOME/.ssh" "$HOME//.ssh/./" '~' '~/' "$HOME/" '~/.bashrc/'; do
		status 7 sbxd config check --carve "$c"
		status 7 sbxd start --project "$PROJECT" --carve "$c"
	done
	owner sh -c 'cd "$0"; for i in 1 2 3 4 5 6; do mkdir -p k$i; echo SECRET >k$i/f; done; mkdir -p open/in; echo SECRET >open/in/f' "$HOME"
	start --mask '~/k1/' --mask '~/k2//' --mask '~//k3' --mask '~/./k4/.' --mask "$HOME/k5/" --mask "$HOME//k6/f" \
		--carve '~/open//' --final-mask '~/open/./in/'
	[ "$(inside sh -c 'cat ~/k*/f ~/open/in/f 2>/dev/null | wc -c')" = 0 ]
	inside sh -c 'echo x >~/open/g'
	[ "$(cat "$HOME/open/g")" = x ]
}
