USE w_ptosc_twice;
CREATE TABLE `w_ptosc_twice`.`_orders_new` LIKE `w_ptosc_twice`.`orders`;
ALTER TABLE `w_ptosc_twice`.`_orders_new` ADD COLUMN note VARCHAR(10) NOT NULL DEFAULT 'n';
DELIMITER //
CREATE TRIGGER `pt_osc_del` AFTER DELETE ON `w_ptosc_twice`.`orders` FOR EACH ROW BEGIN DECLARE CONTINUE HANDLER FOR 1146 begin end; DELETE IGNORE FROM `w_ptosc_twice`.`_orders_new` WHERE `_orders_new`.`id` <=> OLD.`id`; END//
CREATE TRIGGER `pt_osc_upd` AFTER UPDATE ON `w_ptosc_twice`.`orders` FOR EACH ROW BEGIN DELETE IGNORE FROM `w_ptosc_twice`.`_orders_new` WHERE !(OLD.`id` <=> NEW.`id`) AND `_orders_new`.`id` <=> OLD.`id`; REPLACE INTO `w_ptosc_twice`.`_orders_new` (`id`,`v`) VALUES (NEW.`id`,NEW.`v`); END//
CREATE TRIGGER `pt_osc_ins` AFTER INSERT ON `w_ptosc_twice`.`orders` FOR EACH ROW REPLACE INTO `w_ptosc_twice`.`_orders_new` (`id`,`v`) VALUES (NEW.`id`,NEW.`v`)//
DELIMITER ;
INSERT LOW_PRIORITY IGNORE INTO `w_ptosc_twice`.`_orders_new` (`id`,`v`) SELECT `id`,`v` FROM `w_ptosc_twice`.`orders` WHERE id<=2 LOCK IN SHARE MODE /*pt-online-schema-change 1 copy nibble*/;
UPDATE orders SET v='live' WHERE id=1; INSERT INTO orders VALUES(4,'d'); DELETE FROM orders WHERE id=2; UPDATE orders SET id=30 WHERE id=3;
INSERT LOW_PRIORITY IGNORE INTO `w_ptosc_twice`.`_orders_new` (`id`,`v`) SELECT `id`,`v` FROM `w_ptosc_twice`.`orders` WHERE id>2 LOCK IN SHARE MODE /*pt-online-schema-change 2 copy nibble*/;
ANALYZE TABLE `w_ptosc_twice`.`_orders_new` /* pt-online-schema-change */;
RENAME TABLE `w_ptosc_twice`.`orders` TO `w_ptosc_twice`.`_orders_old`, `w_ptosc_twice`.`_orders_new` TO `w_ptosc_twice`.`orders`;
INSERT INTO orders VALUES(5,'e','first');
DROP TABLE IF EXISTS `w_ptosc_twice`.`_orders_old`;
DROP TRIGGER IF EXISTS `w_ptosc_twice`.`pt_osc_del`; DROP TRIGGER IF EXISTS `w_ptosc_twice`.`pt_osc_upd`; DROP TRIGGER IF EXISTS `w_ptosc_twice`.`pt_osc_ins`;
CREATE TABLE `_orders_new` LIKE `orders`; ALTER TABLE `_orders_new` DROP COLUMN v; INSERT IGNORE INTO `_orders_new`(id,note) SELECT id,note FROM orders; DROP TABLE IF EXISTS `_orders_new`;
UPDATE orders SET note='kept' WHERE id=4;
CREATE TABLE `_orders_new` LIKE `orders`; ALTER TABLE `_orders_new` MODIFY v VARCHAR(300) CHARACTER SET utf8mb4, ADD COLUMN big BIGINT UNSIGNED NULL FIRST, DROP PRIMARY KEY, ADD PRIMARY KEY(id,note);
INSERT LOW_PRIORITY IGNORE INTO `_orders_new`(id,v,note) SELECT id,v,note FROM orders LOCK IN SHARE MODE;
RENAME TABLE `w_ptosc_twice`.`orders` TO `w_ptosc_twice`.`_orders_old`, `w_ptosc_twice`.`_orders_new` TO `w_ptosc_twice`.`orders`;
INSERT INTO orders VALUES(18446744073709551615,6,REPEAT('é',250),'six'),(NULL,6,'x','same id'); UPDATE orders SET big=1 WHERE id=1; DROP TABLE IF EXISTS `_orders_old`; DELETE FROM orders WHERE id=5;
