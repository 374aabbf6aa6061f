# npm install from the registry, with the network open: only with SBXD_TEST_NET=1.
# Needs: npm node network
start_flags=(--network open)
before() { printf '[network]\nallow_open = true\n' >"$SBXD_CONFIG"; }
base() { printf '{"name":"app","version":"1.0.0","private":true}\n' >package.json; }
work() {
	export npm_config_cache=$H/.npm npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
	npm install --silent left-pad@1.3.0
	node -e 'console.log(require("left-pad")("x", 5, "-"))'
}
