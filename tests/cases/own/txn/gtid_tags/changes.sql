USE w_gtid_tags;
-- @conn b
USE w_gtid_tags; SET gtid_next='AUTOMATIC:weir_tag'; INSERT INTO t VALUES(2,2); BEGIN; UPDATE t SET v=20 WHERE id=2; INSERT INTO t VALUES(3,3); COMMIT; SET gtid_next='AUTOMATIC';
-- @conn main
SET @u=UUID(); SET gtid_next=CONCAT(@u,':100'); INSERT INTO t VALUES(4,4); SET gtid_next=CONCAT(@u,':5'); ALTER TABLE t ADD w INT DEFAULT 1; SET gtid_next=CONCAT(@u,':other:7'); BEGIN; COMMIT; SET gtid_next='AUTOMATIC';
UPDATE t SET w=2 WHERE id=4; INSERT INTO t VALUES(5,5,5);
