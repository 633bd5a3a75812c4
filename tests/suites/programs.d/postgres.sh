# PostgreSQL: initdb, the server, pgbench with four clients for ten seconds.
chown postgres . && exec setpriv --reuid=postgres --regid=postgres --groups=hanare sh -c '
PATH=$PATH:/usr/lib/postgresql/15/bin; export PGHOST=$PWD PGDATA=$PWD/data HOME=$PWD
initdb -U postgres -A trust --no-sync >initdb.out 2>&1 || { tail -20 initdb.out; exit 1; }
pg_ctl -w -t 60 -o "-k $PWD -c listen_addresses= -c fsync=off" -l log start >start.out 2>&1 ||
    { tail -20 start.out log; exit 1; }
psql() { command psql -U postgres -At "$@"; }
psql -c "create table t as select n, md5(n::text) m from generate_series(1, 5000) n" \
    -c "create index on t(m)" -c "select count(*), max(m) from t" \
    -c "select sum(n) from t where m < \$\$8\$\$"
pgbench -U postgres -i -s 1 -q postgres >pgbench.out 2>&1; echo "made: $?"
pgbench -U postgres -c 4 -T 10 postgres >pgbench.out 2>&1; echo "run: $?"
sed "s/^/# /" pgbench.out
grep "failed transactions" pgbench.out
psql -c "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)" \
    -c "select (select sum(bbalance) from pgbench_branches) = (select sum(tbalance) from pgbench_tellers)"
pg_ctl -m fast stop >stop.out 2>&1; echo "stopped: $?"'
