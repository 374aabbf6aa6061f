# A virtual environment with pip, a package installed into it, and its script run.
# Needs: python3 python3-venv
contents=no # compiled files hold dates, scripts hold paths
base() {
	mkdir -p pkg/tiny
	printf '[metadata]\nname = tiny\nversion = 0.1\n[options]\npackages = tiny\n[options.entry_points]\nconsole_scripts =\n  tiny = tiny:main\n' >pkg/setup.cfg
	printf 'from setuptools import setup\nsetup()\n' >pkg/setup.py
	printf 'def main():\n    print("tiny runs")\n' >pkg/tiny/__init__.py
}
work() {
	export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INDEX=1 PIP_CACHE_DIR=$H/.cache/pip
	python3 -m venv env
	. env/bin/activate
	python -c 'import sys; print(sys.prefix != sys.base_prefix)'
	pip install -q --no-build-isolation ./pkg
	tiny
	pip list --format=freeze | grep tiny
	python -m compileall -q pkg
}
check() { env/bin/tiny; }
