USE w_xa_prepared_before_the_start;
INSERT INTO t VALUES(20,20);
XA COMMIT 'wp1';
UPDATE t SET v=v+1 WHERE id IN (10,20);
XA ROLLBACK 'wp2';
UPDATE t SET v=22 WHERE id=2;
