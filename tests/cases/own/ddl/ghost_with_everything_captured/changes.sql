USE w_ghost_with_everything_captured;
CREATE TABLE `_t_gho` LIKE t; ALTER TABLE `_t_gho` ADD n INT DEFAULT 5 FIRST; INSERT IGNORE INTO `_t_gho`(id,v) SELECT id,v FROM t;
RENAME TABLE t TO `_t_del`; INSERT IGNORE INTO `_t_gho`(id,v) SELECT id,v FROM `_t_del`; RENAME TABLE `_t_gho` TO t; UPDATE t SET n=6 WHERE id=1; INSERT INTO t VALUES(7,3,'c');
CREATE TABLE `_t_gho` LIKE t; ALTER TABLE `_t_gho` DROP COLUMN v; DROP TABLE `_t_gho`; DROP TABLE `_t_del`;
CREATE TABLE `_k_gho` LIKE k; ALTER TABLE `_k_gho` ADD id INT AUTO_INCREMENT PRIMARY KEY, ADD w INT; INSERT INTO `_k_gho`(v) SELECT v FROM k; RENAME TABLE k TO `_k_del`, `_k_gho` TO k; UPDATE k SET w=9 WHERE id=2; INSERT INTO k(v) VALUES(5); DELETE FROM k WHERE id=1;
