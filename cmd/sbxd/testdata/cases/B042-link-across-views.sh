# A package manager links from its cache in HOME into the project. These are two views:
# the link fails with EXDEV and nothing else, and the copy that every such program
# falls back to works. Seen in oven-sh/bun#36853, pnpm/pnpm#6338.
# Needs: python3
apart='two views are two file systems'
base() {
	mkdir -p "$H/.cache/store"
	echo package >"$H/.cache/store/p"
}
work() {
	python3 - <<'PY'
import errno, os, shutil
src = os.environ['H'] + '/.cache/store/p'
for call, name in ((os.link, 'linked'), (os.rename, 'renamed')):
    dst = os.environ['P'] + '/' + name
    try:
        call(src, dst)
    except OSError as e:
        assert e.errno == errno.EXDEV, (name, e)
        shutil.copy2(src, dst)
    else:
        shutil.copy2(dst, src + '.new')
        os.replace(src + '.new', src)
PY
	cp -l "$H/.cache/store/p" third 2>/dev/null || cp "$H/.cache/store/p" third
}
check() { cat "$H/.cache/store/p" linked renamed third; }
