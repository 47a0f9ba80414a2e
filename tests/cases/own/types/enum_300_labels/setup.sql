CREATE DATABASE w_enum_300_labels DEFAULT CHARACTER SET utf8mb4;
USE w_enum_300_labels;
SET group_concat_max_len=100000;
CREATE TABLE n(n INT PRIMARY KEY); INSERT INTO n VALUES(0),(1),(2),(3),(4),(5),(6),(7),(8),(9);
SET @l=(SELECT GROUP_CONCAT(CONCAT('''v',a.n*100+b.n*10+c.n,'''') ORDER BY a.n*100+b.n*10+c.n) FROM n a JOIN n b JOIN n c WHERE a.n<3);
SET @s=CONCAT('CREATE TABLE e(id INT PRIMARY KEY, v ENUM(',@l,'), w ENUM(',@l,') NOT NULL)'); PREPARE p FROM @s; EXECUTE p;
INSERT INTO e VALUES(1,'v0','v255'),(2,'v299','v254'),(3,NULL,'v256');
