CREATE DATABASE w_character_set_inheritance DEFAULT CHARACTER SET utf8mb4;
USE w_character_set_inheritance;
ALTER DATABASE w_character_set_inheritance DEFAULT CHARACTER SET latin1;
CREATE TABLE a(id INT PRIMARY KEY, v VARCHAR(20), e ENUM('ä','ö'));
INSERT INTO a VALUES(1,'äöü','ä');
