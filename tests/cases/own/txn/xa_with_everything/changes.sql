USE w_xa_with_everything;
-- @conn x1
USE w_xa_with_everything; XA START 'wx1','b''q',7; INSERT INTO t VALUES(3,'x1'); INSERT INTO u VALUES(3,3); UPDATE t SET v='x' WHERE id=1; XA END 'wx1','b''q',7; XA PREPARE 'wx1','b''q',7;
-- @close x1
-- @conn main
ALTER TABLE o ADD v INT DEFAULT 1; INSERT INTO o VALUES(1,1); CREATE TABLE n(id INT PRIMARY KEY); INSERT INTO n VALUES(1);
-- @conn x2
USE w_xa_with_everything; XA START 'wx2'; INSERT INTO t VALUES(4,'x2'); XA END 'wx2'; XA PREPARE 'wx2'; XA COMMIT 'wx2';
XA START 'wx3'; SELECT * FROM t; XA END 'wx3'; XA PREPARE 'wx3'; XA COMMIT 'wx3';
XA START 'wx4'; INSERT INTO u VALUES(9,9); XA END 'wx4'; XA ROLLBACK 'wx4';
XA START 'wx5'; INSERT INTO u VALUES(101,101),(102,102); UPDATE u SET v=-1 WHERE id=101; XA END 'wx5'; XA COMMIT 'wx5' ONE PHASE;
-- @conn main
XA COMMIT 'wx1','b''q',7; ALTER TABLE t ADD w INT DEFAULT 5; UPDATE t SET w=6 WHERE id=3;
-- @conn x2
XA START 'wx6'; UPDATE t SET w=7; DELETE FROM u; XA END 'wx6'; XA PREPARE 'wx6'; XA ROLLBACK 'wx6';
