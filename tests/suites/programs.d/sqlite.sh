# SQLite: an equivalent of its speed test.
python3 - >speed.sql <<'P'
import random
random.seed(1)
print('pragma synchronous=off; create table t(a integer primary key, b integer, c text);')
for batch in range(5):
    print('begin;')
    for n in range(1000):
        print(f"insert into t values({batch * 1000 + n}, {random.randrange(10 ** 6)}, '{random.random():.12f} text');")
    print('commit;')
print('create index i on t(b);')
for n in range(50):
    print(f'select count(*), avg(b) from t where b between {n * 10000} and {n * 10000 + 30000};')
print("begin; update t set c = c || b where a % 3 = 0; delete from t where a % 7 = 0; commit;")
print("select count(*), sum(length(c)), min(c), max(c) from t; vacuum; pragma integrity_check;")
P
sqlite3 data.db <speed.sql | sha256sum
sqlite3 data.db 'select count(*), sum(b) from t; pragma integrity_check'
printf 'pragma journal_mode=wal; insert into t values(1000000,1,2); select max(a) from t;' | sqlite3 data.db
sqlite3 data.db 'pragma mmap_size=100000000; select sum(a) from t'
