USE w_key_prefixes;
UPDATE t SET v='abcxyz' WHERE v='abcdef'; REPLACE INTO t VALUES('abdomen',22); DELETE FROM t WHERE n=3; INSERT INTO t VALUES('abe',4); UPDATE t SET n=40 WHERE v='abe';
UPDATE b SET v=X'01020304FF', t='abcd' WHERE n=1; UPDATE b SET n=9; INSERT INTO b VALUES(X'','',3); DELETE FROM b WHERE n=3;
REPLACE INTO u VALUES('hello you',10); UPDATE u SET v='hi there' WHERE n=2; INSERT INTO u VALUES('other',3);
BEGIN; DELETE FROM t WHERE v='abe'; INSERT INTO t VALUES('abexxx',5); UPDATE t SET v='abeyyy' WHERE v='abexxx'; COMMIT;
