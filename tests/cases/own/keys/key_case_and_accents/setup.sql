CREATE DATABASE w_key_case_and_accents DEFAULT CHARACTER SET utf8mb4;
USE w_key_case_and_accents;
CREATE TABLE a(k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT);
CREATE TABLE u(k VARCHAR(20) COLLATE utf8mb4_unicode_ci PRIMARY KEY, v INT);
CREATE TABLE b(k VARCHAR(20) COLLATE utf8mb4_bin PRIMARY KEY, v INT);
CREATE TABLE l(k VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci PRIMARY KEY, v INT);
INSERT INTO a VALUES('abc',1),('Éa',2),('ß',3); INSERT INTO u VALUES('abc',1),('Éa',2),('ß',3),('ﬀ',4); INSERT INTO b VALUES('abc',1),('ABC',2),('é',3),('e',4); INSERT INTO l VALUES('ä',1),('ß',2);
