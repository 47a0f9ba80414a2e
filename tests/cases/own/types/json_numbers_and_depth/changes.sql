USE w_json_numbers_and_depth;
INSERT INTO j SELECT id+10,d FROM j;
INSERT INTO j VALUES(20,CONCAT('["',REPEAT('x',127),'","',REPEAT('y',128),'","',REPEAT('z',16383),'","',REPEAT('w',16384),'"]')),(21,CONCAT('{"',REPEAT('k',300),'":{"',REPEAT('l',70),'":"v"}}')),(22,CONCAT('[',REPEAT('{"a":[1,"b"]},',6000),'0]')),(23,CONCAT('{"big":"',REPEAT('é',40000),'","small":[true,false,null]}'));
UPDATE j SET d=JSON_SET(d,'$[0]',JSON_OBJECT('k',1.5,'l',2e10)) WHERE id IN (1,12);
UPDATE j SET d=JSON_ARRAY() WHERE id=3; UPDATE j SET d='{}' WHERE id=4; UPDATE j SET d=NULL WHERE id=5;
DELETE FROM j WHERE id=6;
