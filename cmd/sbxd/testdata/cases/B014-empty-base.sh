# A project without any file. Seen in tursodatabase/agentfs#106.
work() {
	[ -z "$(ls -A)" ]
	find . -mindepth 1
	echo only >only
	ls -A
}
check() { [ "$(cat "$P/only")" = only ]; }
