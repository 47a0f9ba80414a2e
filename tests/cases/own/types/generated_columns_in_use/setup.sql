CREATE DATABASE w_generated_columns_in_use DEFAULT CHARACTER SET utf8mb4;
USE w_generated_columns_in_use;
CREATE TABLE g(id INT PRIMARY KEY, j JSON, a VARCHAR(20), n INT AS (CHAR_LENGTH(a)) STORED, m INT AS (n+1) VIRTUAL, u VARCHAR(40) AS (CONCAT(a,'-',id)) VIRTUAL, x VARCHAR(30) AS (JSON_UNQUOTE(JSON_EXTRACT(j,'$.k'))) VIRTUAL, KEY(m), UNIQUE KEY(u));
INSERT INTO g(id,j,a) VALUES(1,'{"k":"é"}','日本'),(2,'{"k":5}',''),(3,NULL,NULL);
