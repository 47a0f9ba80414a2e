CREATE DATABASE w_enum_set_corners DEFAULT CHARACTER SET utf8mb4;
USE w_enum_set_corners;
SET sql_mode='';
CREATE TABLE e(id INT PRIMARY KEY, a ENUM('','a','b'), b ENUM('1','2','0') NOT NULL, c SET('1','2','4') NOT NULL, d ENUM('x ','y  '), s SET('m0','m1','m2','m3','m4','m5','m6','m7','m8','m9','m10','m11','m12','m13','m14','m15','m16','m17','m18','m19','m20','m21','m22','m23','m24','m25','m26','m27','m28','m29','m30','m31','m32','m33','m34','m35','m36','m37','m38','m39','m40','m41','m42','m43','m44','m45','m46','m47','m48','m49','m50','m51','m52','m53','m54','m55','m56','m57','m58','m59','m60','m61','m62','m63'));
INSERT INTO e VALUES(1,'','1','1','x',18446744073709551615),(2,'nope','9','9','y',9223372036854775808),(3,NULL,2,3,1,1);
