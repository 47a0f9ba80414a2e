CREATE DATABASE w_text_with_everything_in_it DEFAULT CHARACTER SET utf8mb4;
USE w_text_with_everything_in_it;
CREATE TABLE t(id INT PRIMARY KEY, v VARCHAR(200), c CHAR(20), x TEXT);
INSERT INTO t VALUES(1,'\0\'\"\\\n\r\t\Z\%\_','\0a\0','a\0b'),(2,_utf8mb4 X'EFBBBF41EFBFBEEFBFBF',_utf8mb4 X'65CC81','שלום مرحبا'),(3,'  both  ','  both  ','  both  ');
