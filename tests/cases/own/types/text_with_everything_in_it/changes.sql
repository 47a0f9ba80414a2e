USE w_text_with_everything_in_it;
INSERT INTO t SELECT id+10,v,c,x FROM t;
INSERT INTO t VALUES(20,_utf8mb4 X'F48FBFBF','😀',_utf8mb4 X'F09F91A9E2808DF09F9A80'),(21,_utf8mb4 X'E280A8E280A9',_utf8mb4 X'C285',_utf8mb4 X'7F');
SET sql_mode='NO_BACKSLASH_ESCAPES';
INSERT INTO t VALUES(30,'a\nb\','\\','it''s');
UPDATE t SET x='c:\dir\' WHERE id=1;
SET sql_mode='';
UPDATE t SET v=CONCAT(v,'\\'), c='\t' WHERE id=11;
