# The host replaces a shared file by rename. A directory shows the new one at once; for
# a single file, whose inode a session keeps (DESIGN: inputs), the start says so.
# Seen in deepcoldy/botmux#1113, openclaw/openclaw#124682.
host() {
	owner sh -c 'mkdir "$0/dir"; echo 1 >"$0/dir/f"; echo 1 >"$0/file"' "$W"
	S=$(sbxd start --project "$PROJECT" --ro "$W/dir" --ro "$W/file" 2>"$DIR/err")
	said "file.* name its directory"
	[ "$(inside cat "$W/dir/f" "$W/file")" = $'1\n1' ]
	owner sh -c 'for f in dir/f file; do echo 2 >"$0/t"; mv "$0/t" "$0/$f"; done' "$W"
	[ "$(inside cat "$W/dir/f")" = 2 ]
	case $(inside cat "$W/file") in 1 | 2) ;; *) fail 'neither the old nor the new version' ;; esac
	owner sh -c 'echo 3 >"$0/dir/new"' "$W"
	[ "$(inside cat "$W/dir/new")" = 3 ]
	not inside sh -c 'echo x >"$0/dir/f"' "$W"
}
