#!/bin/sh
# What an agent may do in a session; read from standard input by a shell inside.
# Each step says what it tries, and the script fails when the sandbox lets it out.
set -eu
say() { printf '   inside: %s\n' "$*"; }

say "edit, delete, rename, add"
sed -i 's/hello/hello from the session/' main.go
rm old.txt
mv docs/guide.txt docs/manual.txt
mkdir -p notes
echo "what I did" >notes/log.txt

say "build and run"
if command -v go >/dev/null; then
	go build -o app .
	./app
else
	say "  Go is installed where sessions do not see it; left out"
fi

say "commit"
git add -A
git commit -q -m "say hello from the session"

say "try to read ~/.ssh"
if grep -q . "$HOME/.ssh/id_ed25519" 2>/dev/null; then
	say "READ A KEY"
	exit 1
fi
say "  files to be seen there: $(find "$HOME/.ssh" -type f 2>/dev/null | wc -l)"

say "try to write outside"
for place in /etc/sbxd-demo /usr/bin/sbxd-demo /var/sbxd-demo /run/sbxd-demo /sbxd-demo; do
	if (echo x >"$place") 2>/dev/null; then
		say "WROTE $place"
		exit 1
	fi
done
# These two are the session's own: a scratch directory, and its view of HOME.
echo x >"$HOME/../escaped"
echo changed >"$HOME/.profile"
say "  refused, or nothing of it is on the host"
