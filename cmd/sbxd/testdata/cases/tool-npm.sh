# npm install of a small package, without a network: packed, installed, run.
# Needs: npm node
base() {
	mkdir -p dep/bin app
	printf '{"name":"small","version":"1.2.3","main":"main.js","bin":{"small":"bin/small"},"scripts":{"postinstall":"node -e \\"require(\x27fs\x27).writeFileSync(\x27built\x27,\x27yes\x27)\\""}}\n' >dep/package.json
	echo 'exports.word = "from the package"' >dep/main.js
	printf '#!/usr/bin/env node\nconsole.log(require("..").word)\n' >dep/bin/small
	chmod 755 dep/bin/small
	printf '{"name":"app","version":"1.0.0","private":true}\n' >app/package.json
}
work() {
	export npm_config_cache=$H/.npm npm_config_offline=true npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
	cd dep
	npm pack --silent
	cd ../app
	npm install --silent ../dep/small-1.2.3.tgz
	node -e 'console.log(require("small").word)'
	node_modules/.bin/small
	cat node_modules/small/built
}
check() { cat app/package.json; }
