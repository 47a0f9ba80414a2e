USE w_large_over_tables;
BEGIN; INSERT INTO a SELECT w.n*1000+x.n*100+y.n*10+z.n, REPEAT('é',z.n*5) FROM n w,n x,n y,n z; INSERT INTO b SELECT id*1000003,id,'2024-01-01' + INTERVAL id SECOND FROM a; INSERT INTO c SELECT id%100,CONCAT('w',id%10) FROM a; UPDATE a JOIN b ON b.v=a.id SET a.v=CONCAT('u',a.id), b.v=b.v+1 WHERE a.id%2=0; DELETE FROM c WHERE v=5; COMMIT;
-- @only mysql
SET binlog_transaction_compression=ON;
-- @all
BEGIN; DELETE FROM a WHERE id%3=0; UPDATE b SET id=-id WHERE v%5=0; UPDATE c SET w='z' WHERE v<3; DELETE FROM c WHERE v>50; INSERT INTO c SELECT * FROM c; COMMIT;
BEGIN; DELETE FROM a; DELETE FROM b; ROLLBACK; DELETE FROM b WHERE id<0;
