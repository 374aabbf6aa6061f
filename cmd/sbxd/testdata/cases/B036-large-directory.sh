# One rm of a directory with thousands of entries, half of them of the base, takes all.
# Seen in trapexit/mergerfs#468, seaweedfs/seaweedfs#1514.
base() {
	mkdir heap
	(cd heap && seq -f 'base-%05g' 3000 | xargs touch)
}
work() {
	(cd heap && seq -f 'more-%05g' 3000 | xargs touch)
	ls heap | wc -l
	rm -r heap/*5
	ls heap | wc -l
	rm -r heap
	mkdir heap
	ls -A heap
}
check() { not test -e "$P/heap/base-00001"; }
