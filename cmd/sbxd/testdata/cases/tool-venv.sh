# A virtual environment with pip, a package installed into it, and its script run.
# Needs: python3 python3-venv
contents=no # compiled files hold dates, scripts hold paths
base() {
	mkdir -p pkg/tiny pkg/tiny-0.1.dist-info
	printf 'def main():\n    print("tiny runs")\n' >pkg/tiny/__init__.py
	printf 'Metadata-Version: 2.1\nName: tiny\nVersion: 0.1\n' >pkg/tiny-0.1.dist-info/METADATA
	printf 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n' >pkg/tiny-0.1.dist-info/WHEEL
	printf '[console_scripts]\ntiny = tiny:main\n' >pkg/tiny-0.1.dist-info/entry_points.txt
	printf 'tiny/__init__.py,,\ntiny-0.1.dist-info/METADATA,,\ntiny-0.1.dist-info/WHEEL,,\ntiny-0.1.dist-info/entry_points.txt,,\ntiny-0.1.dist-info/RECORD,,\n' >pkg/tiny-0.1.dist-info/RECORD
}
work() {
	export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INDEX=1 PIP_CACHE_DIR=$H/.cache/pip
	(cd pkg && /usr/bin/python3 -m zipfile -c ../tiny-0.1-py3-none-any.whl tiny tiny-0.1.dist-info)
	/usr/bin/python3 -m venv env
	. env/bin/activate
	python -c 'import sys; print(sys.prefix != sys.base_prefix)'
	pip install -q ./tiny-0.1-py3-none-any.whl
	tiny
}
check() { env/bin/tiny; }
