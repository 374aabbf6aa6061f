# SQLite in WAL mode, several processes at once, in the project and in HOME.
# Needs: sqlite3
base() {
	sqlite3 low.db 'create table t (who, n); insert into t values (0, 0);'
}
work() {
	sqlite3 low.db 'pragma journal_mode = wal;'
	sqlite3 "$H/home.db" 'pragma journal_mode = wal; create table t (who, n);'
	for db in low.db "$H/home.db"; do
		for who in 1 2 3 4; do
			{
				echo '.timeout 20000'
				seq -f "insert into t values ($who, %g);" 25
			} | sqlite3 "$db" >/dev/null &
		done
		for _ in 1 2 3 4 5; do sqlite3 -readonly "$db" '.timeout 20000' 'select count(*) >= 0 from t;'; done
		wait
		sqlite3 "$db" '.timeout 20000' 'select who, count(*), sum(n) from t group by who order by who;' 'pragma integrity_check;' 'pragma journal_mode;'
		sqlite3 "$db" 'pragma wal_checkpoint(truncate);' 'pragma journal_mode = delete;' 'create table u as select who, n from t order by who, n;' 'drop table t;' vacuum
	done
	sqlite3 low.db .dump
	rm low.db # its pages depend on the order of the writers
}
