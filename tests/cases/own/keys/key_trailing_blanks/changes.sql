USE w_key_trailing_blanks;
UPDATE p SET v=10 WHERE k='a'; UPDATE p SET k='a' WHERE k='a'; UPDATE p SET k='b   ' WHERE k='b'; REPLACE INTO p VALUES('   ',30);
UPDATE q SET v=v*10; DELETE FROM q WHERE k='a '; UPDATE q SET k='a   ' WHERE k='a  ';
UPDATE c SET v=5 WHERE k='a     '; REPLACE INTO c VALUES('b  ',6); INSERT INTO c VALUES('c\t',7),('c\0',8);
-- @only mysql
CREATE TABLE n(k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v INT); INSERT INTO n VALUES('a',1),('a ',2),('É',3); UPDATE n SET v=20 WHERE k='a '; DELETE FROM n WHERE k='a'; REPLACE INTO n VALUES('e',30);
-- @only mariadb
CREATE TABLE n(k VARCHAR(20) COLLATE utf8mb4_general_nopad_ci PRIMARY KEY, v INT); INSERT INTO n VALUES('a',1),('a ',2),('É',3); UPDATE n SET v=20 WHERE k='a '; DELETE FROM n WHERE k='a'; REPLACE INTO n VALUES('e',30);
-- @all
UPDATE n SET k='x ' WHERE k='e';
