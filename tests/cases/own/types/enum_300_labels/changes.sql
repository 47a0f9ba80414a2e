USE w_enum_300_labels;
INSERT INTO e VALUES(4,'v255','v0'),(5,256,257),(6,1,300);
SET @s=CONCAT('CREATE TABLE f(id INT PRIMARY KEY, w ENUM(',@l,',''more'') CHARACTER SET latin1)'); PREPARE p FROM @s; EXECUTE p;
INSERT INTO f VALUES(1,'more'),(2,'v299'),(3,1);
UPDATE e SET v=w;
