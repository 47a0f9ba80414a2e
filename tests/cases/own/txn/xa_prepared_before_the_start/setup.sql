CREATE DATABASE w_xa_prepared_before_the_start DEFAULT CHARACTER SET utf8mb4;
USE w_xa_prepared_before_the_start;
CREATE TABLE t(id INT PRIMARY KEY, v INT); INSERT INTO t VALUES(1,1),(2,2),(3,3);
-- @conn x
USE w_xa_prepared_before_the_start; XA START 'wp1'; INSERT INTO t VALUES(10,10); UPDATE t SET v=11 WHERE id=1; XA END 'wp1'; XA PREPARE 'wp1';
-- @close x
-- @conn y
USE w_xa_prepared_before_the_start; XA START 'wp2'; DELETE FROM t WHERE id=2; XA END 'wp2'; XA PREPARE 'wp2';
-- @close y
-- @conn main
