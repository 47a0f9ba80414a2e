CREATE DATABASE w_generated_column_changes DEFAULT CHARACTER SET utf8mb4;
USE w_generated_column_changes;
CREATE TABLE g(id INT PRIMARY KEY, a INT, v INT AS (a*2) VIRTUAL, s INT AS (a*3) STORED, t VARCHAR(10));
INSERT INTO g(id,a,t) VALUES(1,1,'x'),(2,2,'y'),(3,NULL,'z');
