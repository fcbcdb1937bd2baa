import { type Files } from '../../files.js';
import { type Requests } from '../contract/requests.js';
export declare class Inbox implements Requests {
    #private;
    private readonly files;
    constructor(dataDirectory: string, files?: Files);
    lay(id: string, request: string): Promise<void>;
    waiting(): Promise<{
        id: string;
        request: string;
    }[]>;
    begin(id: string): Promise<boolean>;
    withdraw(id: string): Promise<boolean>;
    take(id: string): Promise<void>;
    answer(id: string, answer: string): Promise<void>;
    answerTo(id: string): Promise<string | undefined>;
}
