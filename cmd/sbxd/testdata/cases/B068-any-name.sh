# Every byte but NUL and slash can be in the names of project, mask, input, working
# directory and files. Seen in NixOS/nixpkgs#101942, netblue30/firejail#4614.
host() {
	local n d
	for n in 'two  words' "it's" '"quoted"' '--bind' '$HOME `id`' $'new\nline' $'tab\tand\\back' '*[a]?{b}' ' lead' '~' '-n'; do
		d="$W/$n"
		owner mkdir "$d" "$d/$n" "$W/in"
		owner sh -c 'echo SECRET >"$0/-- secret"; mkdir "$1/$2"; echo ro >"$1/$2/f"' "$d" "$W/in" "$n"
		# A mask that is given is literal after a backslash before each * ? [ ] { }.
		start --project "$d" --mask './-- secret' --ro "$(sed 's/[][*?{}]/\\&/g' <<<"$W/in/$n")"
		[ "$(inside sh -c 'pwd; echo .')" = "$d"$'\n.' ]
		[ "$(sbxd exec --cwd "$n" "$S" -- sh -c 'pwd; echo .')" = "$d/$n"$'\n.' ]
		[ "$(inside cat "$W/in/$n/f")" = ro ]
		not inside grep -q SECRET './-- secret'
		inside sh -c 'echo 1 >"./$0.new"; mkdir -- "-d$0"' "$n"
		sbxd diff --json "$S" >/dev/null
		land
		[ "$(cat "$d/$n.new")" = 1 ]
		[ -d "$d/-d$n" ]
		sbxd rm "$S"
		rm -r -- "$W/in"
	done
	# Names of files need not be UTF-8; the project's path has to be (DESIGN: one clear
	# line for bad input).
	owner mkdir "$W/plain" "$W/"$'\xff'
	start --project "$W/plain"
	inside sh -c 'echo 1 >"$(printf "a\377b")"; mkdir "$(printf "\376")"'
	grep -q '"path_b64"' <<<"$(sbxd diff --json "$S")"
	land
	[ "$(cat "$W/plain/"$'a\xffb')" = 1 ]
	status 7 sbxd start --project "$W/"$'\xff'
	said UTF-8
}
