USE w_ptosc_drop_swap;
CREATE TABLE `_orders_new` LIKE orders; ALTER TABLE `_orders_new` ADD w INT DEFAULT 4, RENAME COLUMN v TO vv; INSERT IGNORE INTO `_orders_new`(id,vv) SELECT id,v FROM orders;
SET foreign_key_checks=0; DROP TABLE IF EXISTS `w_ptosc_drop_swap`.`orders`; RENAME TABLE `w_ptosc_drop_swap`.`_orders_new` TO `w_ptosc_drop_swap`.`orders`; SET foreign_key_checks=1;
INSERT INTO orders VALUES(3,'c',5); INSERT INTO items VALUES(30,3);
CREATE TABLE `_items_new` LIKE items; ALTER TABLE `_items_new` ADD CONSTRAINT _f1 FOREIGN KEY(o) REFERENCES orders(id), ADD n TEXT; INSERT IGNORE INTO `_items_new`(id,o) SELECT id,o FROM items;
RENAME TABLE items TO `_items_old`, `_items_new` TO items; SET foreign_key_checks=0; DROP TABLE `_items_old`; SET foreign_key_checks=1; UPDATE items SET n='n' WHERE id=10; DELETE FROM orders WHERE vv='nope';
